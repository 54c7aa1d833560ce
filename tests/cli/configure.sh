# configure.sh - the build that `make demo` configures: without CUDA where there is no GPU, else for the
# chip that is there; `make` configures the whole build after that.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

cmake=$(command -v cmake) || { skip "cmake is not here"; finish; }
mkdir bin empty dev dev0
touch dev0/nvidia0

# smi CODE TEXT: makes a fake nvidia-smi that prints the text and exits with the code.
smi() {
    printf '#!/bin/sh\nprintf "%%b" "%s"\nexit %d\n' "$2" "$1" >bin/nvidia-smi
    chmod +x bin/nvidia-smi
}

# ---- GPUs and chips --------------------------------------------------------------------------

cat >gpus.cmake <<EOF
set(all_chips 80-real 90a-real 90-virtual)
include("$MUSEC_SOURCE/cmake/gpu.cmake")
musec_gpus(gpus)
musec_chips(chips \${gpus})
message("\${gpus} -> \${chips}")
EOF
chips() { # chips WANTED [PATH [DEV]]
    local got
    got=$(PATH=${2-$PWD/bin:$PATH} "$cmake" -DMUSEC_DEV="$PWD/${3-dev}" -P gpus.cmake 2>&1)
    if [ "$got" = "$1" ]; then pass; else fail "wanted '$1', got '$got' from: $(cat bin/nvidia-smi)"; fi
}
smi 0 '9.0\n'
chips '9.0 -> 90a-real'
smi 0 '8.6\n8.6\n'
chips '8.6 -> 80-real'
smi 0 '9.0\n8.0\n'
chips '8.0;9.0 -> 80-real;90a-real'
smi 0 '12.0\n10.0\n9.0\n'
chips '9.0;10.0;12.0 -> 90a-real;90-virtual'
smi 0 '7.5\n'
chips '7.5 -> '
smi 0 '7.5\n8.9\n'
chips '7.5;8.9 -> 80-real'
smi 9 "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver, version 535.54\n"
chips ' -> '
smi 6 'No devices were found\n'
chips ' -> '
all='unknown -> 80-real;90a-real;90-virtual'
smi 2 'Field "compute_cap" is not a valid field to query.\n'
chips "$all" "$PWD/bin:$PATH" dev0
smi 0 '[N/A]\n'
chips "$all" "$PWD/bin:$PATH" dev0
chips "$all" "$PWD/empty" dev0 # there is no nvidia-smi
chips ' -> ' "$PWD/empty"

# ---- the whole configuration -----------------------------------------------------------------

# configures DIR OPTION...: configures the build, with its messages in the file `said`.
configures() {
    local dir=$1
    shift
    if PATH=$PWD/bin:$PATH "$cmake" -S "$MUSEC_SOURCE" -B "$dir" -G Ninja -DMUSEC_DEV="$PWD/dev" \
        --log-level=NOTICE "$@" >/dev/null 2>said; then pass; else fail "$dir: $(cat said)"; fi
}
says() { if [ "$(cat said)" = "$1" ]; then pass; else fail "wanted '$1', got '$(cat said)'"; fi; }
has() { check "$1: no $2" grep -q -- "$2" "$1/build.ninja"; }
has_no() { check "$1 has $2" test "$(grep -c -- "$2" "$1/build.ninja")" -eq 0; }

if ! command -v ninja >/dev/null; then
    skip "ninja is not here"
    finish
fi
smi 6 'No devices were found\n'
configures none -DMUSEC_DEMO=ON
says 'no GPU here: building without CUDA'
has none '^build musec:'
has_no none 'device/cuda/.*[.]o:'
has_no none 'loop_test[.]c[.]o:'
check "the tests are not off for good" grep -q '^MUSEC_TESTS:BOOL=ON' none/CMakeCache.txt

# The commands that compile every file, except those that depend on CUDA.
commands() {
    sed -n 's/^ *"command": //p' "$1/compile_commands.json" |
        grep -Ev 'src/device/(cuda/|device\.c)|/tests/|/examples/|/fuzz/|kernel_times' | sort
}
if ! command -v nvcc >/dev/null; then
    skip "nvcc is not here"
    finish
fi
commands none >demo_commands
smi 0 '9.0\n'
configures none
check "the GPU that appeared" grep -q '^CUDA: [0-9.]*, chips 90a-real$' said
has none 'arch=compute_90a,code=\[sm_90a\]'
has_no none 'compute_80'
has_no none 'loop_test[.]c[.]o:'
commands none >cuda_commands
check "no other file is compiled differently" cmp demo_commands cuda_commands
configures none -DMUSEC_DEMO=OFF -DMUSEC_TESTS=OFF # needs no cmocka
for code in '80,code=\[sm_80\]' '90a,code=\[sm_90a\]' '90,code=\[compute_90'; do
    has none "arch=compute_$code"
done
commands none >all_commands
check "nor for all chips" cmp demo_commands all_commands
finish
