# bash completion of musec, written by: musec completion bash
_musec() {
    local words= files=
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words='--help --version clip spectrum replay bench info completion'
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
    fi
    case ${COMP_WORDS[1]}:$prev in
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
                clip) words='--help --op --threshold --iters --tol --coeffs --literal --device --dtype --json' files=1 ;;
                spectrum) words='--help --threshold --values --top --estimate --device --dtype --json' files=1 ;;
                replay) words='--help --optimizer --w0 --grads --out --momentum-out --state-in --state-out --role --explain --lr --beta --threshold --update-scale --base --clip --ns-mode --ns-iters --ns-tol --ns-coeffs --literal --weight-decay --decay-form --nesterov --shape-rule --momentum-form --momentum-init --nonfinite --beta1 --beta2 --eps --beta3 --alpha --alpha-warmup --beta3-warmup --qk-tau --qk-alpha --avg-steps --avg-epochs --seed --report-every --workspace --aux-lr --aux-beta1 --aux-beta2 --aux-eps --aux-weight-decay --device --dtype --json' ;;
                bench) words='--help --filter --repeats --quick --all --device --json ops step' ;;
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
