# train_start.sh - the lines of musec train before the first step, warnings, refusals, and the directory
# of a run without --out.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way

tiny=("${small_model[@]}" --batch 128 --val-tokens 256 --val-every 20 --steps 4 --device cpu)
# says PATTERN: some line of the last run's stderr matches.
says() { if grep -Eq -- "$1" stderr; then pass; else fail "no /$1/ in: $(cat stderr)"; fi; }
# stays_silent PATTERN: no line of it matches.
stays_silent() { if grep -Eq -- "$1" stderr; then fail "/$1/ in: $(cat stderr)"; else pass; fi; }

# ---- before the first step -------------------------------------------------------------------------

# 2 * 320 * 32 in the tables, 4 * 32^2 + 2 * 64 * 32 in the matrices
warns '^model: pico, 28,672 parameters, soft-musec at lr 0.2$' train "${tiny[@]}" --out a
says '^tokens: 128 a step, 512 in 4 steps$'
says '^device: cpu, .*1 thread.*, f32$'
says '^memory: about [0-9]+ MiB( of [0-9.]+ [GM]iB available)?$'
says '^time: about [0-9]+ (s|min)$'
says '^output: a$'
stays_silent '^warning'
check "before the first step" test "$(sed -n 's/:.*//p' stderr | head -n 6 | tr '\n' ' ')" = \
    'model tokens device memory time output '
says '^step 4/4: loss [0-9.]+, val [0-9.]+, lr [0-9.]+, [0-9]+ tok/s, 0 s left$'
check "stdout has the result alone" test "$(wc -l <stdout)" -eq 1
succeeds train --quiet "${tiny[@]}" --out b
run train "${tiny[@]}" --stages '2 batch=128; rest batch=256' --out stages
says '^tokens: 128 to 256 a step, 768 in 4 steps$'
run train --resume a --steps 6
says '^tokens: 128 a step, 768 in 6 steps, 4 of them made$'
says '^going on from a/checkpoint/step_00000004$'

# ---- output directories ----------------------------------------------------------------------------

mkdir where
cd where || exit 1
for want in runs/pico-muon-lr0.02-s0{,-2,-3}; do
    run train "${tiny[@]}" --optimizer muon
    prints "; $want\$"
    says "^output: $want\$"
    check "$want is a run" test -s "$want/summary.json"
done
check "none was changed" test "$(cat runs/*/log.jsonl | wc -l)" -eq 12
for _ in 1 2 3 4; do "$MUSEC" train --quiet "${tiny[@]}" --seed 7 >>together 2>&1 & done
wait
check "four at once: $(cat together)" test "$(sed 's/.*; //' together | sort -u | wc -l)" -eq 4
fails 1 'missing.txt: cannot read' train "${tiny[@]}" --seed 8 --data missing.txt
check "a run that cannot be has no directory" test -z "$(find . -name '*-s8*')"
cd .. || exit 1

# ---- warnings --------------------------------------------------------------------------------------

for i in $(seq 200); do echo "line $i of a short text"; done >short.txt
warns '^warning: the [0-9,]+ tokens of short.txt will be read about [0-9]+ times, .*more data, or take fewer --steps$' \
    train --quiet "${tiny[@]}" --data short.txt --steps 1000 --out again
check "one line" test "$(wc -l <stderr)" -eq 1
run train --quiet "${tiny[@]}" --data short.txt --out once
check "few epochs: nothing" test ! -s stderr

# long ARGUMENT...: begins a run of years and stops it once it has a log.
long() {
    local pid
    "$MUSEC" train "$@" --out long >stdout 2>stderr &
    pid=$!
    await $pid test -s long/log.jsonl
    kill -TERM $pid
    wait $pid
    check "asked to stop" test $? -eq 143
    rm -rf long
}
# 10^11 steps of 1.4 million operations per token or more take days on any CPU
long "${tiny[@]}" --steps 100000000000 --val-every 1
says '^warning: about [0-9]+ (days|years) on this CPU; try fewer --steps or a smaller --batch, or a GPU$'
says '^step [0-9]+/100000000000: .* [0-9]+ (days|years) left$'
long --preset small "${tiny[@]}" --stages '' --micro-batches 1 --window-short 63 --window-long 63 \
    --tokenizer byte --vocab 320 --steps 100000000000
says '^warning: about [0-9]+ (days|years) on this CPU; try --preset pico or nano, or a GPU$'

# 64 layers of 51 billion parameters each exceed the memory and swap of any machine.
if [ -r /proc/meminfo ]; then
    fails 1 'there are [0-9.]+ GiB of memory, swap included; the model alone needs [0-9.]+, .*a smaller model' \
        train "${tiny[@]}" --layers 64 --width 65536 --mlp 262144 --head 2048 --heads 32 --out huge
    check "it leaves nothing" test ! -e huge
else
    skip "no /proc/meminfo"
fi

# ---- files that are not text -----------------------------------------------------------------------

# refuses PATTERN FILE
refuses() {
    fails 1 "$1" train "${tiny[@]}" --data "$2" --out no
    check "$2 leaves nothing" test ! -e no
}
npy grad.npy '<f4' '(4,)' False "$f4_1$f4_2$f4_3$f4_4"
refuses 'grad.npy: is a NumPy array \(.npy\), not text; give a text file, or shards' grad.npy
cp a/checkpoint/step_00000004/model.safetensors weights
refuses 'weights: is a model \(.safetensors\), not text' weights
gzip -c short.txt >packed
refuses 'packed: is compressed by gzip; make shards of it with musec tokenize, or unpack it first' packed
printf 'PK\003\004and so on' >archive
refuses 'archive: is a zip archive' archive
{ cat short.txt && printf '\0' && cat short.txt; } >zero.txt
refuses 'zero.txt: is no text: it has zero bytes' zero.txt
mkdir mixed
cp short.txt mixed/a.txt
cp grad.npy mixed/b.txt
refuses 'mixed/b.txt: is a NumPy array' mixed
fails 1 'grad.npy: is a NumPy array' train "${tiny[@]}" --val-data grad.npy --out no
fails 1 'grad.npy: is a NumPy array' sweep --data grad.npy --lr 0.1 --out no
for _ in $(seq 100); do printf 'na\xefve \xe9t\xe9, \x93Latin-1\x94 \xff\xfe\n'; done >latin.txt
succeeds train --quiet "${tiny[@]}" --data latin.txt --out latin
for _ in $(seq 100); do printf '\xef\xbb\xbfna\xc3\xafve, \xe2\x80\x9cUTF-8\xe2\x80\x9d\f\x1b[m\r\n'; done >utf8.txt
succeeds train --quiet "${tiny[@]}" --data utf8.txt --out utf8
finish
