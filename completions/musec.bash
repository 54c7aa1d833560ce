# bash completion of musec, written by: musec completion bash
_musec() {
    local words= files=
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words='--help --version demo train sample clip spectrum replay bench info completion'
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
    fi
    case ${COMP_WORDS[1]}:$prev in
        demo:--out) return ;;
        demo:--steps) return ;;
        demo:--jobs) return ;;
        demo:--seed) return ;;
        train:--preset) words='pico nano small medium wide' ;;
        train:--optimizer) words='musec soft-musec muon muonclip spectra sgdm adam adamw signum ademamix' ;;
        train:--config) return ;;
        train:--out) return ;;
        train:--resume) return ;;
        train:--set) return ;;
        train:--data) return ;;
        train:--val-data) return ;;
        train:--tokenizer) words='byte gpt2' ;;
        train:--doc-rest) words='skip keep' ;;
        train:--steps) return ;;
        train:--batch) return ;;
        train:--micro-batches) return ;;
        train:--max-doc) return ;;
        train:--window-short) return ;;
        train:--window-long) return ;;
        train:--long-layers) return ;;
        train:--mtp) return ;;
        train:--stages) return ;;
        train:--cooldown) return ;;
        train:--cooldown-to) return ;;
        train:--extension) return ;;
        train:--momentum-warmup) return ;;
        train:--momentum-cooldown) return ;;
        train:--momentum-from) return ;;
        train:--grad-reduction) words='mean sum8' ;;
        train:--val-every) return ;;
        train:--val-tokens) return ;;
        train:--checkpoint-every) return ;;
        train:--keep) return ;;
        train:--seed) return ;;
        train:--diverge-factor) return ;;
        train:--diverge-steps) return ;;
        train:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        train:--layers) return ;;
        train:--width) return ;;
        train:--heads) return ;;
        train:--head) return ;;
        train:--mlp) return ;;
        train:--vocab) return ;;
        train:--qk-norm) words='no yes' ;;
        train:--tied) words='no yes' ;;
        train:--head-gates) words='no yes' ;;
        train:--gate-width) return ;;
        train:--x0-mix) words='no yes' ;;
        train:--cap) words='none tanh sigmoid' ;;
        train:--cap-scale) return ;;
        train:--cap-shift) return ;;
        train:--cap-width) return ;;
        train:--attn-scale) return ;;
        train:--attn-softcap) return ;;
        train:--rope-base) return ;;
        train:--rope-share) return ;;
        train:--rope-pairs) words='split adjacent' ;;
        train:--norm-eps) return ;;
        train:--init-qkv) return ;;
        train:--init-out) return ;;
        train:--init-up) return ;;
        train:--init-down) return ;;
        train:--init-embed) return ;;
        train:--init-head) return ;;
        train:--init-residual) return ;;
        train:--lr-qk) return ;;
        train:--lr-vo) return ;;
        train:--lr-up) return ;;
        train:--lr-down) return ;;
        train:--lr) return ;;
        train:--beta) return ;;
        train:--threshold) return ;;
        train:--update-scale) words='paper unit' ;;
        train:--base) words='sgdm adamw signum ademamix' ;;
        train:--clip) words='hard soft' ;;
        train:--ns-mode) words='paper paper7 fast accurate exact' ;;
        train:--ns-iters) return ;;
        train:--ns-tol) return ;;
        train:--ns-coeffs) words='keller polar-express' ;;
        train:--literal) words='no yes' ;;
        train:--weight-decay) return ;;
        train:--decay-form) words='decoupled independent lr2 cautious cautious-lr2 coupled after frank-wolfe' ;;
        train:--nesterov) words='no yes' ;;
        train:--shape-rule) words='none keller moonlight mup rms normuon' ;;
        train:--momentum-form) words='ema heavy-ball' ;;
        train:--momentum-init) words='first zero' ;;
        train:--nonfinite) words='stop skip' ;;
        train:--beta1) return ;;
        train:--beta2) return ;;
        train:--eps) return ;;
        train:--beta3) return ;;
        train:--alpha) return ;;
        train:--alpha-warmup) return ;;
        train:--beta3-warmup) return ;;
        train:--qk-tau) return ;;
        train:--qk-alpha) return ;;
        train:--avg-steps) return ;;
        train:--avg-epochs) return ;;
        train:--report-every) return ;;
        train:--workspace) return ;;
        train:--aux-lr) return ;;
        train:--aux-beta1) return ;;
        train:--aux-beta2) return ;;
        train:--aux-eps) return ;;
        train:--aux-weight-decay) return ;;
        sample:--prompt) return ;;
        sample:--tokens) return ;;
        sample:--temperature) return ;;
        sample:--top-k) return ;;
        sample:--seed) return ;;
        sample:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        clip:--op) words='hard soft ssc paper7 fast accurate polar ns5' ;;
        clip:--threshold) return ;;
        clip:--iters) return ;;
        clip:--tol) return ;;
        clip:--coeffs) words='keller polar-express' ;;
        clip:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        clip:--dtype) words='f32 f64' ;;
        spectrum:--threshold) return ;;
        spectrum:--top) return ;;
        spectrum:--estimate) return ;;
        spectrum:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        spectrum:--dtype) words='f32 f64' ;;
        replay:--optimizer) words='musec soft-musec muon muonclip spectra sgdm adam adamw signum ademamix' ;;
        replay:--w0) files=1 ;;
        replay:--grads) files=1 ;;
        replay:--out) files=1 ;;
        replay:--momentum-out) files=1 ;;
        replay:--state-in) return ;;
        replay:--state-out) return ;;
        replay:--role) words='matrix qk vo mlp embed head vector' ;;
        replay:--lr) return ;;
        replay:--beta) return ;;
        replay:--threshold) return ;;
        replay:--update-scale) words='paper unit' ;;
        replay:--base) words='sgdm adamw signum ademamix' ;;
        replay:--clip) words='hard soft' ;;
        replay:--ns-mode) words='paper paper7 fast accurate exact' ;;
        replay:--ns-iters) return ;;
        replay:--ns-tol) return ;;
        replay:--ns-coeffs) words='keller polar-express' ;;
        replay:--literal) words='no yes' ;;
        replay:--weight-decay) return ;;
        replay:--decay-form) words='decoupled independent lr2 cautious cautious-lr2 coupled after frank-wolfe' ;;
        replay:--nesterov) words='no yes' ;;
        replay:--shape-rule) words='none keller moonlight mup rms normuon' ;;
        replay:--momentum-form) words='ema heavy-ball' ;;
        replay:--momentum-init) words='first zero' ;;
        replay:--nonfinite) words='stop skip' ;;
        replay:--beta1) return ;;
        replay:--beta2) return ;;
        replay:--eps) return ;;
        replay:--beta3) return ;;
        replay:--alpha) return ;;
        replay:--alpha-warmup) return ;;
        replay:--beta3-warmup) return ;;
        replay:--qk-tau) return ;;
        replay:--qk-alpha) return ;;
        replay:--avg-steps) return ;;
        replay:--avg-epochs) return ;;
        replay:--seed) return ;;
        replay:--report-every) return ;;
        replay:--workspace) return ;;
        replay:--aux-lr) return ;;
        replay:--aux-beta1) return ;;
        replay:--aux-beta2) return ;;
        replay:--aux-eps) return ;;
        replay:--aux-weight-decay) return ;;
        replay:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        replay:--dtype) words='f32 f64' ;;
        bench:--filter) return ;;
        bench:--repeats) return ;;
        bench:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        info:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        *)
            case ${COMP_WORDS[1]} in
                demo) words='--help --out --steps --jobs --seed --json' ;;
                train) words='--help --preset --optimizer --config --out --resume --set --explain --quiet --json --data --val-data --tokenizer --doc-rest --steps --batch --micro-batches --max-doc --window-short --window-long --long-layers --mtp --stages --cooldown --cooldown-to --extension --momentum-warmup --momentum-cooldown --momentum-from --grad-reduction --val-every --val-tokens --checkpoint-every --keep --seed --diverge-factor --diverge-steps --device --layers --width --heads --head --mlp --vocab --qk-norm --tied --head-gates --gate-width --x0-mix --cap --cap-scale --cap-shift --cap-width --attn-scale --attn-softcap --rope-base --rope-share --rope-pairs --norm-eps --init-qkv --init-out --init-up --init-down --init-embed --init-head --init-residual --lr-qk --lr-vo --lr-up --lr-down --lr --beta --threshold --update-scale --base --clip --ns-mode --ns-iters --ns-tol --ns-coeffs --literal --weight-decay --decay-form --nesterov --shape-rule --momentum-form --momentum-init --nonfinite --beta1 --beta2 --eps --beta3 --alpha --alpha-warmup --beta3-warmup --qk-tau --qk-alpha --avg-steps --avg-epochs --report-every --workspace --aux-lr --aux-beta1 --aux-beta2 --aux-eps --aux-weight-decay' ;;
                sample) words='--help --prompt --tokens --temperature --top-k --seed --device' files=1 ;;
                clip) words='--help --op --threshold --iters --tol --coeffs --literal --device --dtype --json' files=1 ;;
                spectrum) words='--help --threshold --values --top --estimate --device --dtype --json' files=1 ;;
                replay) words='--help --optimizer --w0 --grads --out --momentum-out --state-in --state-out --role --explain --lr --beta --threshold --update-scale --base --clip --ns-mode --ns-iters --ns-tol --ns-coeffs --literal --weight-decay --decay-form --nesterov --shape-rule --momentum-form --momentum-init --nonfinite --beta1 --beta2 --eps --beta3 --alpha --alpha-warmup --beta3-warmup --qk-tau --qk-alpha --avg-steps --avg-epochs --seed --report-every --workspace --aux-lr --aux-beta1 --aux-beta2 --aux-eps --aux-weight-decay --device --dtype --json' ;;
                bench) words='--help --filter --repeats --quick --all --device --json ops step train' ;;
                info) words='--help --no-peak --device --json' ;;
                completion) words='--help bash zsh' ;;
            esac ;;
    esac
    if [ -n "$files" ] && [[ $cur != -* ]]; then
        compopt -o default
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _musec musec
