# usage.sh - help, version and wrong usage: stdout, stderr and exit codes.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

succeeds --help
prints '^Usage: musec SUBCOMMAND'
for s in clip spectrum replay bench info completion; do prints "^  $s  +[a-z]"; done
succeeds -h
succeeds --version
prints '^musec [0-9]+\.[0-9]+\.[0-9]+$'
check "subcommands are listed" test "$(subcommands | wc -l)" -ge 5

for s in $(subcommands); do
    succeeds "$s" --help
    prints "^Usage: musec $s" '--help'
    check "musec $s --help fits 100 columns" awk 'length > 100 {exit 1}' stdout
    cp stdout help.text
    succeeds help "$s"
    check "musec help $s is musec $s --help" cmp help.text stdout
    succeeds "$s" -h
    fails 2 "unknown option --no-such-thing" "$s" --no-such-thing
done
succeeds bench ops --help
succeeds bench step --help
for s in clip spectrum replay bench info; do # what every command that computes must offer
    run "$s" --help
    prints '^  --json' '^  --device'
done

succeeds --help
cp stdout help.text
for words in help 'help --help' 'help help'; do
    # shellcheck disable=SC2086  # words on purpose
    succeeds $words
    check "musec $words is musec --help" cmp help.text stdout
done
succeeds help data get
prints '^Usage: musec data get'
fails 2 'no subcommand "clop"; did you mean "clip"' help clop
exits 2 # musec alone is wrong usage
check "and prints nothing on stdout" test ! -s stdout
fails 2 'did you mean "clip"' clop a b
fails 2 'did you mean "spectrum"' spektrum a
fails 2 'no subcommand "frobnicate".*--help' frobnicate
fails 2 'no option "--frobnicate".*--help' --frobnicate

npy in.npy '<f4' '(1, 1)' False "$f4_1"
fails 2 'IN.npy OUT.npy' clip
fails 2 'IN.npy OUT.npy' clip in.npy --threshold 1
fails 2 "'extra'" clip in.npy out.npy extra --threshold 1
fails 2 'did you mean --threshold' clip in.npy out.npy --treshold 1
fails 2 '--threshold needs a value' clip in.npy out.npy --threshold
fails 2 "--threshold wants a number, not 'abc'" clip in.npy out.npy --threshold abc
fails 2 "--threshold wants a finite number, not 'nan'" clip in.npy out.npy --threshold nan
fails 2 "--threshold wants a finite number, not 'inf'" clip in.npy out.npy --threshold=inf
fails 2 "--threshold wants a number, not '1x'" clip in.npy out.npy --threshold 1x
fails 2 "--iters wants a whole number" clip in.npy out.npy --op ns5 --iters 2.5
fails 2 "--op 'medium' is none of hard\\|" clip in.npy out.npy --op medium --threshold 1
fails 2 "--dtype 'f16' is none of f32\\|f64" clip in.npy out.npy --dtype f16 --threshold 1
fails 2 "--coeffs 'x' is none of" clip in.npy out.npy --op ns5 --coeffs x
fails 2 '--json takes no value' clip in.npy out.npy --threshold 1 --json=yes
for op in hard hard-fast hard-accurate soft ssc paper7 fast accurate sharp sharp-fast sharp-accurate; do
    fails 2 "--op $op needs --threshold" clip in.npy out.npy --op "$op"
done
fails 2 '--estimate gives the norm alone' spectrum in.npy --estimate 4 --values
fails 2 '--estimate gives the norm alone' spectrum in.npy --estimate 4 --threshold 1
fails 2 'wants FILE' spectrum
fails 2 'only ops\|step' bench steps
fails 2 'ops' bench
fails 2 'bash, zsh and fish, not "csh"' completion csh
fails 2 "takes no operand" info please
check "no output was written" test ! -e out.npy

# A result that cannot be written is a failure.
if [ -w /dev/full ]; then
    for s in --version --help "info --no-peak" "completion bash" "spectrum in.npy"; do
        # shellcheck disable=SC2086  # words
        "$MUSEC" $s >/dev/full 2>stderr
        check "musec $s to a full disk exits 1" test $? -eq 1
        check "musec $s to a full disk says so" test "$(wc -l <stderr)" -eq 1
    done
else
    skip "no /dev/full here"
fi
finish
