# bash completion of musec, written by: musec completion bash
_musec() {
    local words= files=
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words='--help --version clip spectrum bench info completion'
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
        bench:--filter) return ;;
        bench:--repeats) return ;;
        bench:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        info:--device) words=$("${COMP_WORDS[0]}" info --no-peak 2>/dev/null | sed -n 's/^device  *\([^:]*\):.*/\1/p') ;;
        *)
            case ${COMP_WORDS[1]} in
                clip) words='--help --op --threshold --iters --tol --coeffs --literal --device --dtype --json' files=1 ;;
                spectrum) words='--help --threshold --values --top --estimate --device --dtype --json' files=1 ;;
                bench) words='--help --filter --repeats --quick --device --json ops' ;;
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
