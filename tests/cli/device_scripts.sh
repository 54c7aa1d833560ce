# device_scripts.sh - the scripts in a pack of scripts/device_pack, run on fake programs, and the
# environment variables of test programs that they use.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

script() { # CODE SCRIPT ARGUMENT...
    local want=$1 code=0
    shift
    PATH=$PWD/bin:$PATH "$@" >stdout 2>&1 || code=$?
    if [ $code -eq "$want" ]; then pass; else fail "$*: exit $code, not $want: $(cat stdout)"; fi
}

mkdir bin
cp "$MUSEC_SOURCE"/scripts/device/* .

# A test program of three functions.
cat >good_test <<'EOF'
#!/usr/bin/env bash
[ -z "${MUSEC_TEST_LIST-}" ] || { printf '%s\n' one two three; exit; }
echo "[ RUN      ] ${MUSEC_TEST_FILTER-all} on ${MUSEC_TEST_DEVICE-every device}, one in ${MUSEC_TEST_CASES-1}"
echo "[  PASSED  ] 1 test(s)."
EOF
sed 's/^echo "\[  PASSED.*/echo "a.c:1: CHECK(x): no"; echo "[  FAILED  ] f"; exit 1/' good_test >bad_test
sed 's/^echo "\[  PASSED.*/echo "skipped: no tea"; echo "[  SKIPPED ] x"; exit 77/' \
    good_test >idle_test
cp good_test device_ops_test
chmod +x ./*_test

script 0 ./run_tests -j 2 good device_ops
prints '^good: passed, [0-9]+ s' '^2 passed, 0 failed, 0 skipped; 0 parts skipped'
script 1 ./run_tests
prints '^bad: FAILED, exit status 1, ' '^    a.c:1: CHECK\(x\): no' '^idle: skipped, '
prints '^    skipped: all: no tea' '^2 passed, 1 failed, 1 skipped; 1 parts skipped'
script 1 ./run_tests idle # nothing passed
script 2 ./run_tests none
prints '^run_tests: there is no none_test here'
script 2 ./run_tests -j many
prints '^run_tests: -j needs a number'

script 1 env PATH=/usr/bin:/bin ./run_sanitizers good
prints '^run_sanitizers: compute-sanitizer is not here'
# The file `sick` names a tool and a function in which it finds an error, `slow` a function that takes
# long; where there is a file `deaf`, nothing runs on a GPU.
cat >bin/compute-sanitizer <<'EOF'
#!/usr/bin/env bash
[ "$1" = --tool ] && [ "$3" = --max-connections ] || exit 9
tool=$2 found=0
shift 4
[ "$(cat sick 2>/dev/null)" != "$tool $MUSEC_TEST_FILTER" ] || found=2
[ "$(cat slow 2>/dev/null)" != "$MUSEC_TEST_FILTER" ] || sleep 30
"$@"
status=$?
[ $status -eq 0 ] || [ $status -eq 77 ] || exit $status
[ ! -f deaf ] || { echo "========= Error: Target application terminated before first instrumented API call"; exit 255; }
if [ "$tool" = memcheck ]; then echo "========= ERROR SUMMARY: $found errors"
else echo "========= RACECHECK SUMMARY: $found hazards displayed ($found errors, 0 warnings)"; fi
exit $status
EOF
chmod +x bin/compute-sanitizer
script 0 ./run_sanitizers -j 2 good
prints '^memcheck good two: 0 errors, [0-9]+ s' '^racecheck good three: 0 hazards, [0-9]+ s'
prints '^6 clean, 0 failed, 0 stopped, 0 skipped'
check "one function, on the GPU alone" grep -q '^\[ RUN      \] one on cuda, one in 12$' logs/memcheck/good.one.log
script 0 ./run_sanitizers
prints '^soft_clip: not in this pack'
check "one case in 24" grep -q 'on cuda, one in 24$' logs/memcheck/device_ops.one.log
check "one case in 200" grep -q 'on cuda, one in 200$' logs/racecheck/device_ops.one.log
# A piece of all cases: good_test has none, so it runs once a tool; device_ops_test has some.
sed -i 's/^echo "\[  PASSED.*/&; [ -z "${MUSEC_TEST_CASES-}" ] || echo "of the cases: $MUSEC_TEST_CASES"/' device_ops_test
script 0 ./run_sanitizers -j 2 --tool memcheck --piece 2/3 good device_ops
prints '^memcheck good one 3/6: 0 errors' '^memcheck device_ops two 3/6: ' '^memcheck device_ops two 4/6: '
prints '^9 clean, 0 failed, 0 stopped, 0 skipped'
script 2 ./run_sanitizers --piece 4/3 good
prints '^run_sanitizers: --piece needs K/N'
echo racecheck two >sick
script 1 ./run_sanitizers good
prints '^racecheck good two: FAILED: 2 hazards, ' '^5 clean, 1 failed, 0 stopped, 0 skipped'
script 0 ./run_sanitizers --tool memcheck good
rm sick
echo one >slow
script 1 ./run_sanitizers --tool memcheck --limit 1 good
prints '^memcheck good one: TIMEOUT, ' '^2 clean, 0 failed, 1 stopped, 0 skipped'
rm slow
script 1 ./run_sanitizers --tool memcheck bad
prints '^memcheck bad one: FAILED: exit status 1, no summary'
script 1 ./run_sanitizers --tool memcheck idle
prints '^memcheck idle one: skipped: no tea, '
touch deaf
script 1 ./run_sanitizers --tool memcheck good
prints '^memcheck good one: skipped: nothing of it runs on the GPU, '
rm deaf

# Faults: what is given on, and the status of a machine without a GPU.
mkdir faults
cat >faults/device <<'EOF'
import sys
print(" ".join(sys.argv[1:]))
sys.exit(77 if "--case" in sys.argv else 0)
EOF
script 0 ./run_faults -j 3
prints '^\. --jobs 3 --seconds 480$'
script 77 ./run_faults --seconds 9 --case train
prints '^\. --jobs 8 --seconds 9 --case train$'
check "its words are kept" grep -q -- '--case train' logs/faults.txt
script 2 ./run_faults -j none
prints '^run_faults: -j needs a number'

# Benches, of a program that prints its arguments and writes the files of a run.
cat >musec <<'EOF'
#!/usr/bin/env bash
echo "musec $*, libraries ${LD_LIBRARY_PATH-}"
[ "$1 $2" != "bench ops" ] || exit 3
[ ! -f timed ] || [ -z "${KERNEL_TIMES-}" ] || echo "7 kernels by ${CUDA_INJECTION64_PATH##*/}" >"$KERNEL_TIMES"
out=$(sed -n 's/.*--out \([^ ]*\).*/\1/p' <<<"$*")
[ -n "$out" ] || exit 0
mkdir -p "$out/checkpoint/step_00000050"
echo "$*" | grep -o 'precision bf16' >"$out/checkpoint/step_00000050/model.safetensors"
cp "$out"/checkpoint/step_00000050/{model,optim}.safetensors
loss=4.0
[[ $* != *bf16* ]] || loss=4.004
for tok_s in 10 30 20; do
    echo "{\"step\": 1, \"loss\": $loss, \"val_loss\": 9, \"tok_s\": $tok_s}"
done >"$out/log.jsonl"
EOF
printf '#!/bin/sh\nexit 1\n' >bin/python3
cp bin/python3 bin/nvidia-smi
chmod +x musec bin/*
script 2 ./run_benches everything
prints '^run_benches: there is no part everything'
script 1 ./run_benches
prints '^\$ ./musec bench step --preset wide' '^skipped: no data: pack tokens'
prints '^skipped: no PyTorch' '^skipped: no GPU' '^FAILED: exit status 3, '
prints '^skipped: no libkernel_times.so' '^== train: [0-9]+ s'
prints '^7 commands done, 1 failed, 6 skipped, '
script 2 ./run_ranks everything
prints '^run_ranks: there is no part everything'
script 1 ./run_ranks bits failure
prints '^bits: there is no GPU: skipped' '^0 passed, 0 failed, 2 skipped'
mkdir data
touch data/train_000001.bin libkernel_times.so
script 0 ./run_benches run start
prints '^musec train --preset small --data data --steps 60 ' '^tokens/s, median of the steps: 20'
prints '^memory: no nvidia-smi' '^musec bench accuracy --run runs/benches'
prints '^musec train --preset wide --data data --batch 131072 .* --grad-reduction mean --threshold 0.02'
# The libraries of PyTorch's packages are for the program, not for PyTorch.
mkdir -p nvidia/cudnn/lib
touch nvidia/cudnn/lib/libcudnn.so.9
sed -i 's|/usr/local/cuda/|nowhere/|' common.sh
printf '#!/bin/sh\n' >bin/ldconfig
cat >bin/python3 <<'EOF'
#!/bin/sh
case $* in
*nvidia*) echo nvidia/cudnn/lib ;;
-c*) ;;
*) echo "peer $*, libraries $LD_LIBRARY_PATH" ;;
esac
EOF
chmod +x bin/*
printf '#!/bin/sh\ncase $* in *memory*) echo 7853 ;; esac\n' >bin/nvidia-smi
script 0 env LD_LIBRARY_PATH=/before ./run_benches gpt pico
prints '^peer bench/peers/gpt_torch.py --size medium, libraries /before$'
prints '^musec train --preset pico .* libraries /before:nvidia/cudnn/lib$'
prints '^muon-cpu, muon-f32: largest relative difference of 3 losses: 0$'
prints '^muon-cpu, muon-bf16: largest relative difference of 3 losses: 0.001$'
prints '^\$ cmp runs/pico-soft-musec-bf16/.*model.safetensors'
script 1 ./run_benches profile
prints '^FAILED: no kernel was seen'
touch timed
script 0 ./run_benches profile
prints '^7 kernels by libkernel_times.so'
check "a table for each" test -f logs/kernels-train-wide.txt -a -f logs/kernels-step-small.txt

# The variables, on a real test program.
real=$(dirname "$MUSEC")/tests/status_test
if [ -x "$real" ]; then
    MUSEC_TEST_LIST=1 "$real" >names
    check "a name a line" test "$(grep -cE '^[a-z_0-9]+$' names)" -eq "$(wc -l <names)"
    MUSEC_TEST_FILTER=$(head -n 1 names) "$real" >stdout 2>&1
    prints '^1 passed, 0 failed, 0 skipped'
    script 1 env MUSEC_TEST_FILTER=none "$real"
    prints '^no test is called none'
else
    skip "no $real: it is built with the tests"
fi
finish
