# ranks_network.sh - ranks on two machines, which are two network namespaces of this one with a cable
# between them: the bits of one process over TCP, and what happens when the cable is pulled.
#
# It needs root and Open MPI, whose launcher is told how to start a process on the other machine.
# MUSEC_TEST_REPEATS=1 pulls the cable, which takes half a minute.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

"$MUSEC_SOURCE/tests/tools/on_ranks" 1 true >reason 2>&1
if [ $? -eq 77 ]; then
    skip "$(sed 's/^skipped: //' reason)"
    finish
fi
if ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    skip "mpirun is not that of Open MPI"
    finish
fi
a=musec-a-$$ b=musec-b-$$
clean_up() {
    local pid
    for pid in $(ip netns pids $a 2>/dev/null) $(ip netns pids $b 2>/dev/null); do kill -9 "$pid"; done
    ip netns del $a
    ip netns del $b
} 2>/dev/null
trap clean_up EXIT
if ! { ip netns add $a && ip netns add $b &&
    ip link add v0 netns $a type veth peer name v0 netns $b; } >/dev/null 2>&1; then
    skip "no network namespaces can be made here"
    finish
fi
for end in $a:1 $b:2; do
    ip -n "${end%:*}" link set lo up
    ip -n "${end%:*}" addr add "10.99.7.${end#*:}/24" dev v0
    ip -n "${end%:*}" link set v0 up
done
printf '#!/bin/sh\nshift\nexec ip netns exec %s sh -c "$*"\n' $b >agent # agent HOST COMMAND...
chmod +x agent

# on_two ARGUMENT...: musec on two ranks of each machine.
on_two() {
    ip netns exec $a mpirun --mca plm_rsh_agent "$PWD/agent" --mca btl self,tcp \
        --mca btl_tcp_if_include v0 --mca oob_tcp_if_include v0 --oversubscribe --bind-to none \
        --host 10.99.7.1:2,10.99.7.2:2 -np 4 -x OMP_NUM_THREADS -x OPENBLAS_NUM_THREADS \
        "$MUSEC" "$@" >stdout 2>stderr
}
# ranks_here: a process of musec is left in one of the namespaces.
ranks_here() {
    local pid
    for pid in $(ip netns pids $a) $(ip netns pids $b); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = musec ] && return 0
    done
    return 1
}
tiny=(--layers 2 --width 32 --heads 2 --head 16 --mlp 64 --batch 448 --micro-batches 7 --max-doc 64
    --val-tokens 256 --device cpu --report-every 2 --quiet)
steps=${MUSEC_TEST_STEPS:-10}

run train "${tiny[@]}" --steps "$steps" --out one
on_two train "${tiny[@]}" --steps "$steps" --out two
check "two machines: $(tail -n 3 stderr)" test -e two/summary.json
check "two machines: the checkpoint" diff -r one/checkpoint two/checkpoint
check "two machines: the log" cmp <(untimed one) <(untimed two)
# Gradients of half of the micro-batches and half of the weights went over the cable, at least.
sent=$(ip netns exec $a cat /sys/class/net/v0/statistics/tx_bytes)
size=$(stat -c %s "$(checkpoint one "$steps")/model.safetensors")
check "over the cable: $sent bytes" test "$sent" -gt $((steps * size))

if [ -z "${MUSEC_TEST_REPEATS-}" ]; then
    skip "the cable: MUSEC_TEST_REPEATS=1 pulls it"
    finish
fi

# The ranks beyond the cable hear no more of the others, and those no more of them: all end.  Open MPI's
# mpirun may wait for its daemon there for ever.
on_two train "${tiny[@]}" --steps 1000000 --cooldown 0 --checkpoint-every 5 --out cut &
job=$!
if await $job test -e cut/checkpoint/step_00000010/state.json; then
    ip -n $a link set v0 down
    begin=$SECONDS
    while ranks_here && [ $((SECONDS - begin)) -lt 90 ]; do sleep 0.2; done
    check "the cable is pulled: all ranks end within 60 s" test $((SECONDS - begin)) -lt 60
    check "the cable is pulled: one reason: $(cat stderr)" test "$(grep -c '^musec train: ' stderr)" -eq 1
    run train --resume cut --steps "$(($(find cut/checkpoint -maxdepth 1 -name 'step_*' |
        sed 's/.*step_0*//' | sort -n | tail -1) + 1))" --quiet
    check "the cable is pulled: the checkpoint is whole" test "$code" -eq 0
else
    fail "no checkpoint: $(cat stderr)"
fi
finish
