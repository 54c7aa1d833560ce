# matrix.sh - scripts/test_matrix on fake builds: what it runs, counts, skips and prints.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
matrix=$MUSEC_SOURCE/scripts/test_matrix

# ends CODE LAST ARGUMENT...: checks the exit status and the last line, by a pattern.
ends() {
    local want=$1 last=$2
    shift 2
    bash "$matrix" "$@" >stdout 2>&1
    code=$?
    check "$*: exit $code" test "$code" -eq "$want"
    check "$*: $(tail -n 1 stdout)" grep -Eqx -- "$last" <(tail -n 1 stdout)
}
# made DIR CORE TEST...: makes a build whose OpenBLAS has the kernels CORE, with tests "NAME COMMAND".
made() {
    local dir=$1 core=$2 test
    shift 2
    mkdir -p "$dir"
    printf '#!/bin/sh\necho "blas      OpenBLAS 0.3.21, %s kernels, 1 thread"\n' "$core" >"$dir/musec"
    chmod +x "$dir/musec"
    for test; do
        echo "add_test(${test%% *} sh -c [[${test#* }]])"
    done >"$dir/CTestTestfile.cmake"
}

ends 0 'nothing failed\.' --help
ends 2 'test_matrix: there is no option --fast.*' --fast
ends 2 'test_matrix: nowhere is no build with tests.*' nowhere
# shellcheck disable=SC2016  # for the shells of the tests
made good '$OPENBLAS_CORETYPE' 'loop test "$OMP_NUM_THREADS" -le 2' 'golden true' 'style false' \
    'cli_train test -n "$MUSEC_TEST_SCRATCH"'
ends 2 'test_matrix: there is no kernel set Pentium' --kernels Pentium good
ends 2 'test_matrix: --threads needs numbers, not two' --threads two good
if ! grep -qw pni /proc/cpuinfo 2>/dev/null; then
    skip "no processor of x86-64"
    finish
fi
ends 0 '6 passed, 0 failed, 0 skipped' --kernels Prescott --threads 1,2 good
ends 1 '8 passed, 1 failed, 0 skipped' --kernels Prescott good
prints '^Prescott, threads: 4: 2 passed, 1 failed, 0 skipped' '^    loop: *Failed'
ends 0 '3 passed, 0 failed, 0 skipped' --quick --kernels Prescott good
made old Core2 'loop true'
ends 1 '0 passed, 0 failed, 1 skipped' --kernels Prescott old
prints '^skipped: Prescott kernels: OpenBLAS 0.3.21, Core2 kernels, 1 thread is what there is'
# shellcheck disable=SC2016
made empty '$OPENBLAS_CORETYPE' 'style true'
ends 1 '0 passed, 1 failed, 0 skipped' --kernels Prescott --threads 1 empty
finish
