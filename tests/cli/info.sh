# info.sh - musec info and musec bench ops, as text and as JSON.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

succeeds info --no-peak
prints "^musec +$("$MUSEC" --version | cut -d' ' -f2)$"
prints '^built by +(gcc|clang) ' '^device +cpu: .* - here: .*thread'
check "info lists, it does not warn" test -z "$note"
prints '^nccl +(absent; for training on several GPUs: .|[0-9]+\.[0-9]+)'
prints '^mpi +(absent; for training on several ranks: .|[A-Z])'
prints '^device +ref: ' '^blas +.*thread' '^threads +[0-9]+$'
if grep -q '^device *cuda: ' stdout; then
    prints '^device +cuda: .* - (absent here: .|here: .* GiB, compute capability [0-9]+\.[0-9], driver)'
    check "its name once" test "$(grep -c 'absent here: cuda: ' stdout)" -eq 0
    if grep -q 'absent here: ' stdout && [ ! -e /dev/nvidiactl ] && [ ! -e /dev/nvidia0 ] &&
        [ ! -e /dev/dxg ] && [ ! -e /proc/driver/nvidia ] && ! ldconfig -p | grep -q libcuda.so.1; then
        # no sign of a GPU: a word for whoever asks for one, none for others
        run train --layers 1 --width 16 --heads 1 --head 16 --mlp 16 --batch 64 --val-tokens 64 \
            --steps 1 --out alone
        check "no word on GPUs" test -z "$note" -a "$code" -eq 0
        fails 1 '^musec train: cuda: there is no NVIDIA driver' train --device cuda --out never
    else
        skip "there are signs of a GPU here"
    fi
else
    skip "no CUDA in this build"
fi
OMP_NUM_THREADS=1 succeeds info --no-peak
prints '^device +cpu: .*, 1 thread$' '^jansson +[0-9]'
prints '^program +rsvg-convert: (/|absent; .* install the package librsvg2-bin)'
check "no figures without measuring" test "$(grep -c 'FLOP/s' stdout)" -eq 0
PATH=/nowhere succeeds info --no-peak
prints '^program +rsvg-convert: absent; for PNG files install the package librsvg2-bin$'
succeeds info
prints '^peak on +[a-z]' '^copy +[0-9.]+ GB/s$' '^gemm f32 +[0-9.]+ GFLOP/s$'
prints '^gemm f64 +[0-9.]+ GFLOP/s$'
succeeds info --device ref
prints '^peak on +ref$' '^gemm bf16 +[0-9.]+ GFLOP/s$'

succeeds bench ops --quick --repeats 1 --filter gemm # a few rows: all of them are make bench
prints ' gemm .*[0-9]+x[0-9]+'
check "only what the filter lets through" test "$(grep -c 'ssc' stdout)" -eq 0

succeeds info --json
json_is version="$("$MUSEC" --version | cut -d' ' -f2)"
cpu=$(python3 -c 'import json
print([d["name"] for d in json.load(open("stdout"))["devices"]].index("cpu"))')
check "the cpu opens" test "$(json devices "$cpu" opens)" = true
check "the cpu has a description" grep -q thread <<<"$(json devices "$cpu" here)"
check "ref has none" test "$(json devices $((cpu + 1)) here)" = null
check "peak" awk -v x="$(json peak gemm_f32_gflop_s)" 'BEGIN {exit !(x > 0)}'
succeeds info --json --no-peak
json_is peak=null
succeeds bench ops --quick --repeats 1 --filter gemm --json
check "valid JSON" python3 -m json.tool stdout
finish
