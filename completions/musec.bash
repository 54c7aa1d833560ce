# bash completion of musec, written by: musec completion bash
_musec_take() { mapfile -t COMPREPLY < <(compgen "$@" -- "$cur"); }
_musec_runs() { # run directories that begin with what is typed
    local f
    for f in "$1"*/config.json "$1"*/*/config.json "$1"*/*/*/config.json; do
        [ ! -e "$f" ] || printf '%s\n' "${f%/config.json}"
    done
}
_musec() {
    local words='' kind=''
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        _musec_take -W '--help --version help demo train sample export sweep watch report paper theory tokenize encode decode data clip spectrum replay bench info completion'
        return
    fi
    case ${COMP_WORDS[1]}:$prev in
        demo:--out) kind=directories ;;
        demo:--steps) return ;;
        demo:--jobs) return ;;
        demo:--seed) return ;;
        train:--preset) words='pico nano small medium wide' ;;
        train:--optimizer) words='musec soft-musec muon muonclip spectra sgdm adam adamw signum ademamix' ;;
        train:--out) kind=directories ;;
        train:--resume) kind=runs ;;
        train:--set) kind=stems words='data= val_data= tokenizer= data_format= doc_rest= steps= batch= micro_batches= max_doc= mtp= stages= cooldown= cooldown_to= extension= momentum_warmup= momentum_cooldown= momentum_from= grad_reduction= val_every= val_tokens= checkpoint_every= keep= seed= init_from= diverge_factor= diverge_steps= device= precision= deterministic= layers= width= heads= head= mlp= vocab= window_short= window_long= long_layers= qk_norm= tied= head_gates= gate_width= x0_mix= cap= cap_scale= cap_shift= cap_width= attn_scale= attn_softcap= rope_base= rope_share= rope_pairs= norm_eps= init_qkv= init_out= init_up= init_down= init_embed= init_head= init_residual= lr_qk= lr_vo= lr_up= lr_down= lr= beta= threshold= update_scale= base= clip= ns_mode= ns_iters= ns_tol= ns_coeffs= literal= operands= weight_decay= decay_form= nesterov= shape_rule= momentum_form= momentum_init= momentum_dtype= nonfinite= beta1= beta2= eps= beta3= alpha= alpha_warmup= beta3_warmup= qk_tau= qk_alpha= avg_steps= avg_epochs= report_every= workspace= aux_lr= aux_beta1= aux_beta2= aux_eps= aux_weight_decay=' ;;
        train:--config) kind=files ;;
        train:--data) kind=files ;;
        train:--tokenizer) words='byte gpt2' ;;
        train:--steps) return ;;
        train:--batch) return ;;
        train:--seed) return ;;
        train:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        train:--lr) return ;;
        train:--threshold) return ;;
        train:--weight-decay) return ;;
        train:--val-data) kind=files ;;
        train:--data-format) words='shard nanogpt' ;;
        train:--doc-rest) words='skip keep' ;;
        train:--max-doc) return ;;
        train:--layers) return ;;
        train:--width) return ;;
        train:--heads) return ;;
        train:--head) return ;;
        train:--mlp) return ;;
        train:--vocab) return ;;
        train:--window-short) return ;;
        train:--window-long) return ;;
        train:--long-layers) return ;;
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
        train:--init-from) kind=files ;;
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
        train:--beta) return ;;
        train:--update-scale) words='paper unit' ;;
        train:--decay-form) words='decoupled independent lr2 cautious cautious-lr2 coupled after frank-wolfe' ;;
        train:--nesterov) words='no yes' ;;
        train:--shape-rule) words='none keller moonlight mup rms normuon' ;;
        train:--momentum-form) words='ema heavy-ball' ;;
        train:--momentum-init) words='first zero' ;;
        train:--nonfinite) words='stop skip' ;;
        train:--avg-steps) return ;;
        train:--avg-epochs) return ;;
        train:--ns-mode) words='paper paper7 fast accurate exact' ;;
        train:--ns-iters) return ;;
        train:--ns-tol) return ;;
        train:--ns-coeffs) words='keller polar-express' ;;
        train:--literal) words='no yes' ;;
        train:--base) words='sgdm adamw signum ademamix' ;;
        train:--clip) words='hard soft' ;;
        train:--beta1) return ;;
        train:--beta2) return ;;
        train:--eps) return ;;
        train:--beta3) return ;;
        train:--alpha) return ;;
        train:--alpha-warmup) return ;;
        train:--beta3-warmup) return ;;
        train:--qk-tau) return ;;
        train:--qk-alpha) return ;;
        train:--aux-lr) return ;;
        train:--aux-beta1) return ;;
        train:--aux-beta2) return ;;
        train:--aux-eps) return ;;
        train:--aux-weight-decay) return ;;
        train:--micro-batches) return ;;
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
        train:--diverge-factor) return ;;
        train:--diverge-steps) return ;;
        train:--report-every) return ;;
        train:--precision) words='auto f32 bf16 f16' ;;
        train:--deterministic) words='no yes' ;;
        train:--operands) words='auto f32 bf16 f16' ;;
        train:--momentum-dtype) words='own bf16' ;;
        train:--workspace) return ;;
        sample:--prompt) return ;;
        sample:--vocab) kind=files ;;
        sample:--tokens) return ;;
        sample:--temperature) return ;;
        sample:--top-k) return ;;
        sample:--seed) return ;;
        sample:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        export:--to) words='hf' ;;
        export:--out) kind=directories ;;
        export:--step) return ;;
        export:--dtype) words='f32 bf16' ;;
        export:--vocab) kind=files ;;
        sweep:--preset) words='pico nano small medium wide' ;;
        sweep:--optimizer) words='musec soft-musec muon muonclip spectra sgdm adam adamw signum ademamix' ;;
        sweep:--lr) return ;;
        sweep:--threshold) return ;;
        sweep:--weight-decay) return ;;
        sweep:--ns-iters) return ;;
        sweep:--seed) return ;;
        sweep:--grid) kind=stems words='data= val_data= tokenizer= data_format= doc_rest= steps= batch= micro_batches= max_doc= mtp= stages= cooldown= cooldown_to= extension= momentum_warmup= momentum_cooldown= momentum_from= grad_reduction= val_every= val_tokens= checkpoint_every= keep= seed= init_from= diverge_factor= diverge_steps= device= precision= deterministic= layers= width= heads= head= mlp= vocab= window_short= window_long= long_layers= qk_norm= tied= head_gates= gate_width= x0_mix= cap= cap_scale= cap_shift= cap_width= attn_scale= attn_softcap= rope_base= rope_share= rope_pairs= norm_eps= init_qkv= init_out= init_up= init_down= init_embed= init_head= init_residual= lr_qk= lr_vo= lr_up= lr_down= lr= beta= threshold= update_scale= base= clip= ns_mode= ns_iters= ns_tol= ns_coeffs= literal= operands= weight_decay= decay_form= nesterov= shape_rule= momentum_form= momentum_init= momentum_dtype= nonfinite= beta1= beta2= eps= beta3= alpha= alpha_warmup= beta3_warmup= qk_tau= qk_alpha= avg_steps= avg_epochs= report_every= workspace= aux_lr= aux_beta1= aux_beta2= aux_eps= aux_weight_decay=' ;;
        sweep:--set) kind=stems words='data= val_data= tokenizer= data_format= doc_rest= steps= batch= micro_batches= max_doc= mtp= stages= cooldown= cooldown_to= extension= momentum_warmup= momentum_cooldown= momentum_from= grad_reduction= val_every= val_tokens= checkpoint_every= keep= seed= init_from= diverge_factor= diverge_steps= device= precision= deterministic= layers= width= heads= head= mlp= vocab= window_short= window_long= long_layers= qk_norm= tied= head_gates= gate_width= x0_mix= cap= cap_scale= cap_shift= cap_width= attn_scale= attn_softcap= rope_base= rope_share= rope_pairs= norm_eps= init_qkv= init_out= init_up= init_down= init_embed= init_head= init_residual= lr_qk= lr_vo= lr_up= lr_down= lr= beta= threshold= update_scale= base= clip= ns_mode= ns_iters= ns_tol= ns_coeffs= literal= operands= weight_decay= decay_form= nesterov= shape_rule= momentum_form= momentum_init= momentum_dtype= nonfinite= beta1= beta2= eps= beta3= alpha= alpha_warmup= beta3_warmup= qk_tau= qk_alpha= avg_steps= avg_epochs= report_every= workspace= aux_lr= aux_beta1= aux_beta2= aux_eps= aux_weight_decay=' ;;
        sweep:--data) kind=files ;;
        sweep:--out) kind=directories ;;
        sweep:--jobs) return ;;
        sweep:--threads) return ;;
        sweep:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        watch:--port) return ;;
        watch:--every) return ;;
        report:--out) kind=files ;;
        report:--png) kind=directories ;;
        report:--csv) kind=directories ;;
        report:--title) return ;;
        report:--sections) words='loss-lr controls effective-step stability dynamics progress weight-norm effective-rank clip-activity step-time threshold ns-iters architecture training hyperparameters runs' ;;
        report:--within) return ;;
        paper:--scale) words='pico nano small medium wide' ;;
        paper:--data) kind=files ;;
        paper:--seeds) return ;;
        paper:--set) kind=stems words='data= val_data= tokenizer= data_format= doc_rest= steps= batch= micro_batches= max_doc= mtp= stages= cooldown= cooldown_to= extension= momentum_warmup= momentum_cooldown= momentum_from= grad_reduction= val_every= val_tokens= checkpoint_every= keep= seed= init_from= diverge_factor= diverge_steps= device= precision= deterministic= layers= width= heads= head= mlp= vocab= window_short= window_long= long_layers= qk_norm= tied= head_gates= gate_width= x0_mix= cap= cap_scale= cap_shift= cap_width= attn_scale= attn_softcap= rope_base= rope_share= rope_pairs= norm_eps= init_qkv= init_out= init_up= init_down= init_embed= init_head= init_residual= lr_qk= lr_vo= lr_up= lr_down= lr= beta= threshold= update_scale= base= clip= ns_mode= ns_iters= ns_tol= ns_coeffs= literal= operands= weight_decay= decay_form= nesterov= shape_rule= momentum_form= momentum_init= momentum_dtype= nonfinite= beta1= beta2= eps= beta3= alpha= alpha_warmup= beta3_warmup= qk_tau= qk_alpha= avg_steps= avg_epochs= report_every= workspace= aux_lr= aux_beta1= aux_beta2= aux_eps= aux_weight_decay=' ;;
        paper:--out) kind=directories ;;
        paper:--jobs) return ;;
        paper:--threads) return ;;
        paper:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        paper:--png) kind=directories ;;
        paper:--csv) kind=directories ;;
        paper:--within) return ;;
        theory:--delta) return ;;
        theory:--steps) return ;;
        theory:--rank) return ;;
        theory:--rho) return ;;
        theory:--lipschitz) return ;;
        theory:--sigma) return ;;
        theory:--gap) return ;;
        theory:--epsilon) return ;;
        theory:--optimizer) words='musec soft-musec muon muonclip spectra sgdm adam adamw signum ademamix' ;;
        theory:--lr) return ;;
        theory:--beta) return ;;
        theory:--threshold) return ;;
        theory:--set) kind=stems words='lr= beta= threshold= update_scale= base= clip= ns_mode= ns_iters= ns_tol= ns_coeffs= literal= operands= weight_decay= decay_form= nesterov= shape_rule= momentum_form= momentum_init= momentum_dtype= nonfinite= beta1= beta2= eps= beta3= alpha= alpha_warmup= beta3_warmup= qk_tau= qk_alpha= avg_steps= avg_epochs= seed= report_every= workspace= aux_lr= aux_beta1= aux_beta2= aux_eps= aux_weight_decay=' ;;
        theory:--seed) return ;;
        theory:--seeds) return ;;
        theory:--samples) return ;;
        theory:--out) kind=files ;;
        tokenize:--out) kind=directories ;;
        tokenize:--tokenizer) words='gpt2 byte' ;;
        tokenize:--vocab) kind=files ;;
        tokenize:--split) words='eot blank file' ;;
        tokenize:--format) words='auto text jsonl' ;;
        tokenize:--field) return ;;
        tokenize:--shard-tokens) return ;;
        tokenize:--val-tokens) return ;;
        tokenize:--limit-tokens) return ;;
        tokenize:--max-document) return ;;
        tokenize:--threads) return ;;
        encode:--tokenizer) words='gpt2 byte' ;;
        encode:--vocab) kind=files ;;
        decode:--tokenizer) words='gpt2 byte' ;;
        decode:--vocab) kind=files ;;
        data:--tokenizer) words='auto gpt2 byte' ;;
        data:--data-format) words='shard nanogpt' ;;
        data:--vocab) kind=files ;;
        data:--sample) return ;;
        data:--out) kind=directories ;;
        data:--limit-tokens) return ;;
        data:--mirror) return ;;
        data:--sources) kind=files ;;
        data:--shard-tokens) return ;;
        data:--retries) return ;;
        data:--retry-delay) return ;;
        data:--stall) return ;;
        data:--threads) return ;;
        clip:--op) words='hard soft ssc paper7 fast accurate polar ns5' ;;
        clip:--threshold) return ;;
        clip:--iters) return ;;
        clip:--tol) return ;;
        clip:--coeffs) words='keller polar-express' ;;
        clip:--operands) words='f32 bf16 f16' ;;
        clip:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        clip:--dtype) words='f32 f64' ;;
        spectrum:--threshold) return ;;
        spectrum:--top) return ;;
        spectrum:--estimate) return ;;
        spectrum:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        spectrum:--dtype) words='f32 f64' ;;
        replay:--optimizer) words='musec soft-musec muon muonclip spectra sgdm adam adamw signum ademamix' ;;
        replay:--w0) kind=files ;;
        replay:--grads) kind=files ;;
        replay:--out) kind=files ;;
        replay:--momentum-out) kind=files ;;
        replay:--state-in) kind=files ;;
        replay:--state-out) kind=files ;;
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
        replay:--operands) words='auto f32 bf16 f16' ;;
        replay:--weight-decay) return ;;
        replay:--decay-form) words='decoupled independent lr2 cautious cautious-lr2 coupled after frank-wolfe' ;;
        replay:--nesterov) words='no yes' ;;
        replay:--shape-rule) words='none keller moonlight mup rms normuon' ;;
        replay:--momentum-form) words='ema heavy-ball' ;;
        replay:--momentum-init) words='first zero' ;;
        replay:--momentum-dtype) words='own bf16' ;;
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
        bench:--preset) words='pico nano small medium wide' ;;
        bench:--run) kind=runs ;;
        bench:--vocab) kind=files ;;
        bench:--text) kind=files ;;
        bench:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        info:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        *)
            case ${COMP_WORDS[1]} in
                help) [ "$COMP_CWORD" -eq 2 ] && words='demo train sample export sweep watch report paper theory tokenize encode decode data clip spectrum replay bench info completion' ;;
                demo) words='--help --out --steps --jobs --seed --json' ;;
                train) words='--help --preset --optimizer --out --resume --explain --set --config --data --tokenizer --steps --batch --seed --device --lr --threshold --weight-decay --val-data --data-format --doc-rest --max-doc --layers --width --heads --head --mlp --vocab --window-short --window-long --long-layers --qk-norm --tied --head-gates --gate-width --x0-mix --cap --cap-scale --cap-shift --cap-width --attn-scale --attn-softcap --rope-base --rope-share --rope-pairs --norm-eps --init-from --init-qkv --init-out --init-up --init-down --init-embed --init-head --init-residual --lr-qk --lr-vo --lr-up --lr-down --beta --update-scale --decay-form --nesterov --shape-rule --momentum-form --momentum-init --nonfinite --avg-steps --avg-epochs --ns-mode --ns-iters --ns-tol --ns-coeffs --literal --base --clip --beta1 --beta2 --eps --beta3 --alpha --alpha-warmup --beta3-warmup --qk-tau --qk-alpha --aux-lr --aux-beta1 --aux-beta2 --aux-eps --aux-weight-decay --micro-batches --mtp --stages --cooldown --cooldown-to --extension --momentum-warmup --momentum-cooldown --momentum-from --grad-reduction --quiet --json --val-every --val-tokens --checkpoint-every --keep --diverge-factor --diverge-steps --report-every --precision --deterministic --operands --momentum-dtype --workspace' ;;
                sample) words='--help --prompt --vocab --tokens --temperature --top-k --seed --device --json' kind=runs ;;
                export) words='--help --to --out --step --dtype --vocab --json' kind=files ;;
                sweep) words='--help --preset --optimizer --lr --threshold --weight-decay --ns-iters --seed --grid --set --data --out --jobs --threads --device --keep-checkpoints --dry-run --json' kind=files ;;
                watch) words='--help --port --every --once --no-page --json' kind=runs ;;
                report) words='--help --out --png --csv --title --sections --within --omit-times --json' kind=runs ;;
                paper) words='--help --scale --data --seeds --full --quick --set --out --jobs --threads --device --png --csv --within --omit-times --no-run --dry-run --recalibrate --json list lr-sweep fig1 fig4 fig5 dynamics fig2 fig6 fig7 fig8 weight-norm fig3 effective-rank fig9 step-time fig10 threshold fig11 ns-iters fig12 architecture table1 training table2 hyperparameters table3 table4 table5 effective-step controls clip-activity stability verdict claims theory theorem convergence' ;;
                theory) words='--help --delta --steps --rank --rho --lipschitz --sigma --gap --epsilon --json --optimizer --lr --beta --threshold --set --seed --seeds --samples --out params run'
                    [ "$COMP_CWORD" -gt 2 ] && case ${COMP_WORDS[2]} in
                        run) words="$words list sensing phase completion relu max kinks quadratic" ;;
                    esac ;;
                tokenize) words='--help --out --tokenizer --vocab --split --format --field --shard-tokens --val-tokens --limit-tokens --max-document --threads --skip-bad --resume --verify --quiet --json' kind=files ;;
                encode) words='--help --tokenizer --vocab --special' ;;
                decode) words='--help --tokenizer --vocab' ;;
                data) words='--help --tokenizer --data-format --vocab --sample --json --out --limit-tokens --mirror --sources --shard-tokens --retries --retry-delay --stall --threads --skip-bad --keep-raw --verify --list --quiet inspect get'
                    [ "$COMP_CWORD" -gt 2 ] && case ${COMP_WORDS[2]} in
                        inspect) kind=files ;;
                        get) words="$words gpt2-vocab fineweb openwebtext c4" ;;
                    esac ;;
                clip) words='--help --op --threshold --iters --tol --coeffs --literal --operands --device --dtype --json' kind=files ;;
                spectrum) words='--help --threshold --values --top --estimate --device --dtype --json' kind=files ;;
                replay) words='--help --optimizer --w0 --grads --out --momentum-out --state-in --state-out --role --explain --lr --beta --threshold --update-scale --base --clip --ns-mode --ns-iters --ns-tol --ns-coeffs --literal --operands --weight-decay --decay-form --nesterov --shape-rule --momentum-form --momentum-init --momentum-dtype --nonfinite --beta1 --beta2 --eps --beta3 --alpha --alpha-warmup --beta3-warmup --qk-tau --qk-alpha --avg-steps --avg-epochs --seed --report-every --workspace --aux-lr --aux-beta1 --aux-beta2 --aux-eps --aux-weight-decay --device --dtype --json' ;;
                bench) words='--help --filter --repeats --quick --all --loose --preset --run --vocab --text --device --json ops step train tokenize accuracy' ;;
                info) words='--help --no-peak --device --json' ;;
                completion) words='--help bash zsh fish' ;;
            esac ;;
    esac
    if [[ $cur == -* ]]; then
        kind=
    fi
    case $kind in
        files) compopt -o default; return ;;
        directories) compopt -o filenames; _musec_take -d; return ;;
        runs)
            compopt -o filenames
            mapfile -t COMPREPLY < <(_musec_runs "$cur")
            [ ${#COMPREPLY[@]} -gt 0 ] || _musec_take -d
            return ;;
        stems) compopt -o nospace ;;
    esac
    _musec_take -W "$words"
}
complete -F _musec musec
