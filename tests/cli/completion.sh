# completion.sh - the completion scripts in their shells.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

"$MUSEC" completion bash >musec.bash
check "bash reads it" bash -n musec.bash
# shellcheck source=/dev/null
. ./musec.bash
# shellcheck disable=SC2317  # called by the completion
compopt() { :; } # outside of a real completion there is nothing to set

# completes "WORDS TO WHAT IS TYPED" "WORDS OFFERED"
completes() {
    local typed=$1 got
    read -ra COMP_WORDS <<<"$typed"
    COMP_WORDS[0]=$MUSEC
    [[ $typed == *' ' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _musec
    got=${COMPREPLY[*]-}
    if [ "$got" = "$2" ]; then pass; else fail "'$typed' completes to '$got', not '$2'"; fi
}
completes 'musec cl' 'clip'
completes 'musec sw' 'sweep'
completes 'musec he' 'help'
completes 'musec help sp' 'spectrum'
completes 'musec help clip ' ''
completes 'musec --v' '--version'
completes 'musec clip --op p' 'paper7 polar'
completes 'musec clip --thr' '--threshold'
completes 'musec clip --threshold ' ''
completes 'musec clip in.npy out.npy --js' '--json'
completes 'musec clip --dtype ' 'f32 f64'
completes 'musec spectrum --device cp' 'cpu'
completes 'musec spectrum --device r' 'ref'
completes 'musec spectrum x' ''
completes 'musec bench o' 'ops'
completes 'musec bench s' 'step'
completes 'musec replay --optimizer mu' 'musec muon muonclip muon2 muonh mucon'
completes 'musec replay --momentum-' '--momentum-out --momentum-form --momentum-init --momentum-dtype'
completes 'musec paper fig1' 'fig1 fig10 fig11 fig12'
completes 'musec paper verd' 'verdict'
completes 'musec data ge' 'get'
completes 'musec data get f' 'fineweb'
completes 'musec theory run ph' 'phase'
completes 'musec sweep --optimizer mu' 'musec muon muonclip muon2 muonh mucon'
completes 'musec sweep --device cp' 'cpu'
completes 'musec sweep --grid ns_i' 'ns_iters='
completes 'musec train --set data_f' 'data_format='
completes 'musec train --data-format ' 'shard nanogpt'
completes 'musec paper --scale pi' 'pico'
completes 'musec paper --scale br' 'brief'
completes 'musec paper --scale sma' 'small'
completes 'musec report --sections loss' 'loss-lr'
mkdir -p runs/first runs/second runs/sweep/one elsewhere
touch runs/first/config.json runs/second/config.json runs/sweep/one/config.json elsewhere.txt
completes 'musec train --resume runs/s' 'runs/second runs/sweep/one'
completes 'musec train --resume ' 'runs/first runs/second runs/sweep/one'
completes 'musec sample r' 'runs/first runs/second runs/sweep/one'
completes 'musec report --js' '--json'
completes 'musec bench --run elsew' 'elsewhere'
completes 'musec train --out else' 'elsewhere'
completes 'musec train --config else' ''
completes 'musec replay --lr ' ''
completes 'musec sweep --th' '--threshold --threads'
completes 'musec paper --no' '--no-checkpoints --no-run'
completes 'musec replay --w0 ' ''
completes 'musec completion ' '--help bash zsh fish'
completes 'musec info --no' '--no-peak'
completes 'musec nonsense --x' ''

# zsh completes in a pseudo-terminal; ^X writes the line to a file.
if zsh -f -c 'zmodload zsh/zpty' 2>/dev/null; then
    mkdir -p bin fpath
    ln -s "$MUSEC" bin/musec
    "$MUSEC" completion zsh >fpath/_musec
    check "zsh reads it" zsh -n fpath/_musec
    cat >try.zsh <<'ZSH'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "path=($PWD/bin \$path); fpath=($PWD/fpath \$fpath); autoload -Uz compinit; compinit -u -D
report() { print -r -- \$BUFFER >>$PWD/became; BUFFER= }; zle -N report; bindkey '^X' report; echo rea''dy"
zpty -r -m shell out '*ready*'
integer lines=0
for typed in "$@"; do
    zpty -w -n shell "$typed"$'\t\C-x'
    (( lines++ ))
    for try in {1..1000}; do
        (( $(wc -l <became) >= lines )) && break
        sleep 0.1
    done
done
zpty -d shell
ZSH
    : >became
    timeout 500 zsh -f try.zsh 'musec spec' 'musec clip --op pap' 'musec clip --thr' 'musec bench o' \
        'musec spectrum --device re' 'musec clip try.z' 'musec --v' 'musec completion z' \
        'musec replay --w0 try.z' 'musec replay --threshold 1 --decay-form ind' \
        'musec help spec' 'musec paper verd' 'musec data get finew' 'musec data inspect try.z' \
        'musec train --resume runs/f' 'musec train --out elsew' 'musec train --config elsewhere.' \
        'musec train --set data_form' 'musec theory run ph'
    sed 's/ $//' became >lines
    check "zsh completes: $(cat lines)" cmp lines - <<'LINES'
musec spectrum
musec clip --op paper7
musec clip --threshold
musec bench ops
musec spectrum --device ref
musec clip try.zsh
musec --version
musec completion zsh
musec replay --w0 try.zsh
musec replay --threshold 1 --decay-form independent
musec help spectrum
musec paper verdict
musec data get fineweb
musec data inspect try.zsh
musec train --resume runs/first/
musec train --out elsewhere/
musec train --config elsewhere.txt
musec train --set data_format=
musec theory run phase
LINES
else
    skip "no zsh"
fi

# fish lists its completions without a terminal.
if fish --version >/dev/null 2>&1; then
    mkdir -p bin home
    ln -sf "$MUSEC" bin/musec
    "$MUSEC" completion fish >musec.fish
    check "fish reads it" fish --no-execute musec.fish
    # offers "WHAT IS TYPED" "WORDS OFFERED"
    offers() {
        local got
        got=$(HOME=$PWD/home PATH="$PWD/bin:$PATH" fish --no-config -c \
            'source musec.fish; complete -C"$argv[1]" | string replace -r "\t.*" ""' "$1" | tr '\n' ' ')
        got=${got% }
        if [ "$got" = "$2" ]; then pass; else fail "fish: '$1' completes to '$got', not '$2'"; fi
    }
    offers 'musec cl' 'clip'
    offers 'musec --v' '--version'
    offers 'musec help spec' 'spectrum'
    offers 'musec clip --op p' 'paper7 polar'
    offers 'musec clip --thr' '--threshold'
    offers 'musec clip --threshold ' ''
    offers 'musec clip try.z' "$([ -e try.zsh ] && echo try.zsh)"
    offers 'musec spectrum --device re' 'ref'
    offers 'musec bench trai' 'train'
    offers 'musec bench train --pres' '--preset'
    offers 'musec bench train --resu' ''
    offers 'musec paper fig1' 'fig1 fig10 fig11 fig12'
    offers 'musec data ge' 'get'
    offers 'musec data get fin' 'fineweb'
    offers 'musec data inspect elsewhere.' 'elsewhere.txt'
    offers 'musec theory run ph' 'phase'
    offers 'musec train --optimizer mu' 'mucon muon muon2 muonclip muonh musec'
    offers 'musec train --set data_f' 'data_format='
    offers 'musec train --resume runs/s' 'runs/second runs/sweep/one'
    offers 'musec sample runs/f' 'runs/first'
    offers 'musec train --out elsew' 'elsewhere/'
    offers 'musec train --config elsewhere.' 'elsewhere.txt'
    offers 'musec completion f' 'fish'
else
    skip "no fish"
fi
finish
