# interrupt.sh - signals that ask to stop: the messages, the exit code, and that a step abandoned in its
# middle has no effect on the run.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# Steps of the first stage are short.  Those of the second take minutes on any CPU, with many
# micro-batches, so that nothing depends on the speed of the machine.
tiny=(--layers 2 --width 32 --heads 2 --head 16 --mlp 64 --max-doc 64 --val-tokens 256 --device cpu
    --val-every 0 --report-every 2 --steps 4 --cooldown 0)
long="3 batch=128; rest batch=134217728 micro=65536"

# stop.py LINES SIGNAL ARGUMENT...: starts musec train into the directory `run`, sends the signal once
# its log has so many lines, and prints its exit code.
cat >stop.py <<'P2'
import os, signal, subprocess, sys, time
job = subprocess.Popen([os.environ["MUSEC"], "train", *sys.argv[3:], "--out", "run"],
                       stdout=open("stdout", "w"), stderr=open("stderr", "w"), start_new_session=True)
def logged():
    try: return open("run/log.jsonl").read().count("\n")
    except OSError: return -1
while job.poll() is None and logged() < int(sys.argv[1]): time.sleep(0.01)
job.send_signal(getattr(signal, sys.argv[2]))
print(job.wait(900))
P2

# ---- inside a step that takes minutes --------------------------------------------------------------

for signal in INT TERM HUP; do
    rm -rf run
    want=$((128 + $(kill -l $signal)))
    check "SIG$signal: exit $want" test "$(python3 stop.py 3 SIG$signal "${tiny[@]}" --stages "$long")" = $want
    check "SIG$signal: answered" test "$signal" = HUP -o \
        "$(grep -cx 'finishing this step; again to stop now' stderr)" -eq 1
    check "SIG$signal: says how to go on" grep -qx \
        'interrupted; go on with: musec train --resume run' stderr
    prints '^interrupted after 3 steps, 384 tokens'
    check "SIG$signal: the summary" summary run status '"interrupted"'
    check "SIG$signal: the steps that were made" test "$(wc -l <run/log.jsonl)" -eq 3
    check "SIG$signal: a checkpoint of the last of them" test "$(ls run/checkpoint)" = step_00000003
done

# The abandoned step has no effect: weights, optimizer state and positions in the data are those of a
# run of three steps.
run train "${tiny[@]}" --stages "$long" --steps 3 --out three
for f in model.safetensors optim.safetensors; do
    check "the same $f" cmp {run,three}/checkpoint/step_00000003/$f
done
check "the same places" python3 -c 'import json
a, b = (json.load(open(d + "/checkpoint/step_00000003/state.json"))["state"] for d in ("run", "three"))
for key in "step", "tokens", "sets", "last_loss", "best_loss", "data": assert a[key] == b[key], key'

# ---- inside a validation ---------------------------------------------------------------------------

# The validation of step 2 takes minutes, too.  The step is not in the log before it has ended.
rm -rf run
check "in a validation: exit 130" test "$(python3 stop.py 1 SIGINT "${tiny[@]}" --batch 128 \
    --val-every 2 --val-tokens 100000000)" = 130
check "in a validation: answered" grep -qx 'finishing this step; again to stop now' stderr
check "in a validation: the summary" summary run status '"interrupted"'
check "in a validation: a line a whole step" test "$(wc -l <run/log.jsonl)" -eq 1

# ---- quiet -----------------------------------------------------------------------------------------

rm -rf run
check "--quiet: exit 130" test "$(python3 stop.py 3 SIGINT "${tiny[@]}" --stages "$long" --quiet)" = 130
check "--quiet: nothing is said" test ! -s stderr
finish
