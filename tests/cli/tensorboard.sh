# tensorboard.sh - the event files of resumed runs, read by TensorBoard: their curves are those of
# log.jsonl.  One run is made by tests/runlog_test.c, with every kind of
# number in it, one by musec train.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

if ! python3 -c 'import tensorboard' 2>/dev/null; then
    skip "the tensorboard package is not here"
    finish
fi

mkdir run
check "a run" "$(dirname "$MUSEC")/tests/runlog_test" run
cat >judge.py <<'PYTHON'
import json, math, struct, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

run, steps = sys.argv[1], int(sys.argv[2])
NULL = math.nan  # what JSON cannot hold

def float32(x):
    if x is None or abs(x) > 3.4028235e38:
        return NULL
    return struct.unpack("f", struct.pack("f", x))[0]

want = {}  # tag: [(step, value)]
for line in open(f"{run}/log.jsonl"):
    line = json.loads(line)
    flat = {k: line[k] for k in ("loss", "objective", "val_loss", "lr", "tok_s", "max_logit") if k in line}
    flat.update({f"{g}/{k}": x for g, stats in line.get("groups", {}).items() for k, x in stats.items()})
    flat.update({f"time/{k}_ms": x for k, x in line["ms"].items()})
    for tag, x in flat.items():
        want.setdefault(tag, []).append((line["step"], float32(x)))

events = EventAccumulator(run, size_guidance={"scalars": 0})  # finds the file by its name
events.Reload()
assert sorted(events.Tags()["scalars"]) == sorted(want), events.Tags()
for tag, curve in want.items():
    got = [(s.step, s.value if math.isfinite(s.value) else NULL) for s in events.Scalars(tag)]
    assert str(got) == str(curve), (tag, got, curve)
    walls = [s.wall_time for s in events.Scalars(tag)]
    assert walls == sorted(walls) and walls[0] > 1.6e9, (tag, walls)
got = [e.step for e in EventFileLoader(f"{run}/events.out.tfevents.musec").Load()]
assert got == list(range(steps + 1)), got  # the version, then every step once
PYTHON
judge() { # DIR STEPS
    if python3 judge.py "$@" >verdict 2>&1; then pass; else fail "judge.py $*: $(tail -n 1 verdict)"; fi
}
judge run 7

export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way
succeeds train --quiet "${small_model[@]}" --batch 256 --val-tokens 512 --val-every 4 --report-every 3 \
    --steps 12 --checkpoint-every 8 --out trained
judge trained 12
rm -r trained/checkpoint/step_00000012
succeeds train --quiet --resume trained --steps 20
judge trained 20
finish
