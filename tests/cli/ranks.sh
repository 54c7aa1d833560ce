# ranks.sh - musec train on several ranks under mpirun: the same bits as in one process with every
# optimizer, checkpoints that know no ranks, what rank 0 alone prints, and --resume auto.
#
# MUSEC_TEST_STEPS=50 makes runs so long, and MUSEC_TEST_RANKS="2 3 4" compares so many ranks with one
# process, with every optimizer; by default it is few steps on 2, and on 4 where that may differ.
# MUSEC_TEST_DEVICE=cuda computes there (ranks may share a GPU), MUSEC_TEST_OPTIMIZERS="muon adamw" takes
# these alone, MUSEC_TEST_COMM=nccl has ranks communicate so, and MUSEC_TEST_LAUNCHER=plain starts them
# without MPI (tests/tools/on_ranks).
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
steps=${MUSEC_TEST_STEPS:-6} ranks=${MUSEC_TEST_RANKS:-2} device=${MUSEC_TEST_DEVICE:-cpu}
names=${MUSEC_TEST_OPTIMIZERS:-$(optimizers)}
comm=${MUSEC_TEST_COMM:-$([ "${MUSEC_TEST_LAUNCHER:-mpirun}" = plain ] && echo tcp || echo auto)}

"$MUSEC_SOURCE/tests/tools/on_ranks" 1 true >reason 2>&1
if [ $? -eq 77 ]; then
    skip "$(sed 's/^skipped: //' reason)"
    finish
fi

# on N ARGUMENT...: musec on so many ranks; like `run`.
on() {
    "$MUSEC_SOURCE/tests/tools/on_ranks" "$1" "$MUSEC" "${@:2}" --comm "$comm" >stdout 2>stderr
    code=$?
}
# Seven micro-batches: no rank gets as many as another one, and the tree is no whole one.
tiny=(--layers 2 --width 32 --heads 2 --head 16 --mlp 64 --batch 448 --micro-batches 7 --max-doc 64
    --val-tokens 512 --val-every 3 --report-every 2 --device "$device" --steps "$steps" --quiet)

# same WHAT N ARGUMENT...: N ranks leave what one process leaves: checkpoint, log, summary.
same() {
    local what=$1 n=$2
    shift 2
    rm -rf several
    on "$n" train "${tiny[@]}" "$@" --out several
    if [ "$code" -ne 0 ]; then
        fail "$what on $n ranks: exit $code: $(tail -n 3 stderr)"
        return
    fi
    check "$what on $n ranks: the checkpoint" diff -r one/checkpoint several/checkpoint
    check "$what on $n ranks: the log" cmp <(untimed one) <(untimed several)
    check "$what on $n ranks: the output" cmp <(sed 's/, [0-9.]* s:/:/; s/one$/several/' one.stdout) \
        <(sed 's/, [0-9.]* s:/:/' stdout)
}
# every WHAT RANKS ARGUMENT...: compares one process with each of these numbers of ranks.
every() {
    local what=$1 n list=$2
    shift 2
    rm -rf one
    succeeds train "${tiny[@]}" "$@" --out one
    mv stdout one.stdout
    for n in $list; do same "$what" "$n" "$@"; done
}

# ---- the same bits -----------------------------------------------------------------------------------

for name in $names; do every "$name" "$ranks" --optimizer "$name"; done
every "all parts of the model" "2 4" --head-gates yes --x0-mix yes --tied no --optimizer musec
every "the parts of the full models" 2 --x0-mix yes --embed2 yes --smear yes --skips 1:0 --backout 0 \
    --attn-scales yes --value-tables 0:0,1:0 --init-values 0.1 --key-offset yes --untie 3 --spare 1
every "thresholds by quantile, averages" 4 --threshold quantile:0.9 --avg-steps 3
every "rounded momentum" 4 --momentum-dtype bf16
every "layers that are recomputed" 2 --recompute layer --layers 3 --optimizer musec
every "more ranks than micro-batches" 3 --micro-batches 1
every "operands of 16 bits" 3 --operands bf16
every "operands of 16 bits" 2 --operands f16 --optimizer muon
if [ "$device" != cpu ]; then every "activations in float32" 2 --precision f32; fi

# Logits of 0.01 shrink W_q and W_k at every step.
every "clipped logits" 3 --optimizer muonclip --qk-tau 0.01 --qk-norm no

# Not deterministic: within rounding.  Sums of seven float32 gradients differ in their last bits, and
# a few steps hardly raise that; 1e-4 of the loss is a hundred times what is seen.
rm -rf one several
succeeds train "${tiny[@]}" --deterministic no --out one
loss=$(sed 's/.*loss \([0-9.]*\).*/\1/' stdout)
on 3 train "${tiny[@]}" --deterministic no --out several
check "not deterministic" near 0.0005 "$(sed 's/.*loss \([0-9.]*\).*/\1/' stdout)" "$loss"

# Replicas: the same within rounding, and files of the first of them alone.
rm -rf several
on 4 train "${tiny[@]::${#tiny[@]}-1}" --deterministic no --replicas 2 --out several
check "replicas: $(tail -n 2 stderr)" grep -Eq '^ranks: 4 by (mpi|tcp) in 2 replicas; .* 0\.5[0-9] of the optimizer' stderr
check "replicas: the loss" near 0.0005 "$(sed 's/.*loss \([0-9.]*\).*/\1/' stdout)" "$loss"
run train --resume several --steps $((steps + 1)) --quiet
check "replicas: resumed by one" test "$code" -eq 0
on 4 train "${tiny[@]}" --replicas 2 --out none
check "replicas: ordered sums" grep -q '^musec train: .*--replicas 2 needs --deterministic no' stderr
on 3 train "${tiny[@]}" --deterministic no --replicas 2 --out none
check "replicas: 3 ranks" grep -q '^musec train: .*3 ranks do not make 2 replicas' stderr
for n in 2x 1x 0; do
    fails 2 "--replicas wants a whole number of 1 or more, no or auto, not '$n'" train --replicas $n
done

# As many as machines, which their names tell apart: of ranks 0 and 2, and of 1 and 3.
printf '#!/bin/sh\nhostname "machine-$((RANK %% 2))"; exec "$@"\n' >named
chmod +x named
if [ "${MUSEC_TEST_LAUNCHER:-mpirun}" != plain ] && [ "$device" = cpu ]; then
    if unshare --uts ./named true 2>/dev/null; then
        rm -rf several
        MUSEC_TEST_LAUNCHER=plain "$MUSEC_SOURCE/tests/tools/on_ranks" 4 unshare --uts ./named "$MUSEC" train \
            "${tiny[@]::${#tiny[@]}-1}" --deterministic no --comm tcp --out several >stdout 2>stderr
        check "two machines: $(tail -n 2 stderr)" grep -q '^ranks: 4 by tcp in 2 replicas' stderr
        check "two machines: the loss" near 0.0005 "$(sed 's/.*loss \([0-9.]*\).*/\1/' stdout)" "$loss"
    else
        skip "two machines: no names of machines can be made up here"
    fi
fi

# ---- checkpoints know no ranks -----------------------------------------------------------------------

rm -rf one several
nine=("${tiny[@]}" --steps 9 --checkpoint-every 3 --keep 0)
succeeds train "${nine[@]}" --out one
on 4 train "${nine[@]}" --out several
rm -rf several/checkpoint/step_0000000[69] several/summary.json
run train --resume several --quiet
check "saved by 4 ranks, resumed by 1" diff -r {one,several}/checkpoint/step_00000009
rm -rf several/checkpoint/step_0000000[69] several/summary.json
on 3 train --resume several --quiet
check "saved by 4 ranks, resumed by 3" diff -r {one,several}/checkpoint/step_00000009
check "the log" cmp <(untimed one) <(untimed several)
rm -rf one several
run train "${tiny[@]}" --optimizer muon --cooldown 0 --steps 4 --out several
on 2 train --resume several --steps 8 --quiet
run train "${tiny[@]}" --optimizer muon --cooldown 0 --steps 8 --out one
check "begun by 1, resumed by 2: weights" cmp {one,several}/checkpoint/step_00000008/model.safetensors
check "begun by 1, resumed by 2: state" cmp {one,several}/checkpoint/step_00000008/optim.safetensors

# ---- one rank speaks ---------------------------------------------------------------------------------

rm -rf several
on 3 train "${tiny[@]:0:${#tiny[@]}-1}" --out several
share='1\.[0-9]+' # one rank may have all matrices on GPUs
[ "$device" = cpu ] || share='[1-3]\.[0-9]+'
check "the ranks" grep -Eq "^ranks: 3 by (mpi|tcp|nccl)( \(NCCL is not used: .*\))?; the busiest has $share of the mean" stderr
check "said once" test "$(grep -c "^device: $device" stderr)" -eq 1
check "the result once" test "$(wc -l <stdout)" -eq 1
on 2 train "${tiny[@]}" --out several
check "a run that is there: exit" test "$code" -eq 1
check "a run that is there: one reason" test "$(grep -c '^musec train: several: there is a run' stderr)" -eq 1
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 succeeds train "${tiny[@]}" --steps 1 --out alone --comm self
if [ "${MUSEC_TEST_LAUNCHER:-mpirun}" = plain ]; then
    MASTER_PORT=x RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost fails 1 'MASTER_PORT is "x"' train "${tiny[@]}" --out none
    "$MUSEC_SOURCE/tests/tools/on_ranks" 2 "$MUSEC" train "${tiny[@]}" --out none >stdout 2>stderr
    check "TCP without NCCL is asked for by name" grep -q '^musec train: .*insist on --comm tcp' stderr
    RANK=0 WORLD_SIZE=2 fails 1 'set both to the machine of rank 0' train "${tiny[@]}" --out none --comm tcp
else # MPI alone begins here, and leaves memory at the end (tests/tools/on_ranks)
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 RANK=0 WORLD_SIZE=2 \
        fails 1 'the launcher has started 2 processes, but MPI .* knows of 1' train "${tiny[@]}" --out none
fi
RANK=0 WORLD_SIZE=two fails 1 'WORLD_SIZE is "two"' train "${tiny[@]}" --out none
check "not even a directory" test ! -e none

# ---- --resume auto -----------------------------------------------------------------------------------

rm -rf one several
more=("${tiny[@]}" --checkpoint-every 2 --keep 0)
succeeds train "${more[@]}" --out one
auto=("${more[@]}" --out several --resume auto)
on 2 train "${auto[@]}"
check "auto begins" test "$code" -eq 0 -a -e several/summary.json
rm -rf "$(checkpoint several 4)" "$(checkpoint several "$steps")" several/summary.json
on 3 train "${auto[@]}"
check "auto goes on" diff -r "$(checkpoint one "$steps")" "$(checkpoint several "$steps")"
check "auto goes on: the log" cmp <(untimed one) <(untimed several)
cp one/config.json config.json
succeeds train --config config.json --width 48 --steps 4 --out several2 --resume auto --quiet
succeeds train --config config.json --width 48 --steps 8 --out several2 --resume auto --quiet
prints '^done after 8 steps'
fails 1 'optimizer soft-musec, not muon' train "${auto[@]}" --optimizer muon
fails 1 'width 32, not 64' train "${auto[@]}" --width 64
fails 2 'auto goes on with the run of --out' train --resume auto
finish
