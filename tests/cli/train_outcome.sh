# train_outcome.sh - the status of runs (done, stalled or diverged) in their files, in sweeps, in reports
# and on the terminal; and the status of runs by older versions.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way

tiny=(--layers 1 --width 32 --heads 1 --head 32 --mlp 64 --batch 256 --max-doc 64 --val-tokens 512)
train() { succeeds train --quiet "${tiny[@]}" "$@"; }
field() { # field DIR KEY: of the summary, as Python prints it
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1] + "/summary.json"))[sys.argv[2]])' "$1" "$2"
}
is() { check "$1: $2 is $3, not $(field "$1" "$2")" test "$(field "$1" "$2")" = "$3"; }
last_status() { tail -n 1 "$1/log.jsonl" | grep -o '"status": "[a-z]*"'; }

# ---- each status -----------------------------------------------------------------------------------

train --steps 100 --optimizer muon --out healthy
prints '^done after 100 steps'
is healthy status done
is healthy reason None
check "no status in the log" test "$(grep -c '"status"' healthy/log.jsonl)" -eq 0
# the built-in corpus has an entropy of 3.22 nats a byte; start tokens, 1 in 700, add 0.01
check "unigram loss" awk -v x="$(field healthy unigram_loss)" 'BEGIN { exit !(x > 3.2 && x < 3.25) }'

# The learning rate is far too large, but the loss falls.
train --steps 20 --optimizer sgdm --lr 1000000 --out wild
prints '^diverged: the spectral norm of a weight has grown to [0-9.]+e\+[0-9]+, above 10000 after 20 steps'
is wild status diverged
check "the reason" grep -q '"reason": "the spectral norm of a weight' wild/summary.json
check "the log's last line" test "$(last_status wild)" = '"status": "diverged"'
check "one line says so" test "$(grep -c '"status"' wild/log.jsonl)" -eq 1

# The learning rate is far too small.
idle=(--optimizer sgdm --lr 1e-12 --aux-lr 1e-12)
train --steps 100 "${idle[@]}" --checkpoint-every 40 --keep 0 --out idle
prints '^stalled: its loss never fell 5% below the unigram loss of 3\.2[0-9]* \(best mean of ten steps: 5\.[0-9]*\) after 100 steps'
is idle status stalled
check "the log's last line" test "$(last_status idle)" = '"status": "stalled"'
train --steps 100 "${idle[@]}" --out idle_json --json
check "JSON" python3 -c 'import json; s = json.load(open("stdout"))
assert s["status"] == "stalled" and s["reason"].startswith("its loss never") and s["unigram_loss"] > 3'

# Runs of less than 100 steps cannot stall.
train --steps 99 "${idle[@]}" --out short
prints '^done after 99 steps'
train --steps 1 --out one
prints '^done after 1 steps'

# ---- the same after an interruption ----------------------------------------------------------------

cp -r idle torn
rm -r torn/checkpoint/step_00000100 torn/checkpoint/step_00000080 torn/summary.json
succeeds train --quiet --resume torn
prints '^stalled: .* after 100 steps'
for key in status reason unigram_loss; do
    is torn "$key" "$(field idle "$key")"
done
check "the same state" cmp idle/checkpoint/step_00000100/state.json torn/checkpoint/step_00000100/state.json
succeeds train --quiet --resume idle # all its steps are made
prints '^stalled: .* after 100 steps'
succeeds train --quiet --resume short --steps 100
prints '^stalled: .* after 100 steps'
rm -r idle_json/checkpoint
fails 1 'idle_json/summary.json says that the run is stalled, and there is no checkpoint' train --resume idle_json

# A checkpoint of an older version has no record of the loss, which begins there.
python3 - <<'P'
import hashlib, json, shutil
shutil.copytree("idle", "old_track")
for name in ("checkpoint/step_00000080", "checkpoint/step_00000100"):
    shutil.rmtree("old_track/" + name)
path = "old_track/checkpoint/step_00000040/state.json"
state = json.load(open(path))
del state["state"]["track"], state["state"]["lowest_gain"]
text = json.dumps(state, indent=1) + "\n" # the last 64 digits are the sum of all before them
text = text[:-68] + hashlib.sha256(text[:-68].encode()).hexdigest() + text[-4:]
open(path, "w").write(text)
P
succeeds train --quiet --resume old_track
prints '^done after 100 steps' # the record has 60 steps

# ---- clips that have not converged -----------------------------------------------------------------

words="the clip has not converged: its updates have 0\.[0-8][0-9]* of the norm of the exact clip's; --ns-mode accurate or exact"
few=(--steps 40 --report-every 10 --ns-iters 1)
warns "^warning: $words\$" train "${tiny[@]}" "${few[@]}" --checkpoint-every 20 --keep 0 --out few/whole
check "once" test "$(grep -c 'not converged' stderr)" -eq 1
check "the summary" grep -Eq "\"note\": \"$words\"" few/whole/summary.json
cp -r few/whole few/torn # as it was when it had warned, 20 steps before its end
rm -r few/torn/checkpoint/step_00000040 few/torn/summary.json
exits 0 train --resume few/torn
check "not again: $(cat stderr)" test "$(grep -c 'not converged' stderr)" -eq 0
is few/torn note "$(field few/whole note)"
check "the same state" cmp few/whole/checkpoint/step_00000040/state.json few/torn/checkpoint/step_00000040/state.json
train "${few[@]}" --seed 1 --json --out few/seed
check "JSON: $(cat stdout)" grep -Eq "\"note\": \"$words\"" stdout
for how in "--ns-mode exact" "--ns-mode accurate" "--report-every 0" "--optimizer muon" "--optimizer adamw"; do
    # shellcheck disable=SC2086  # an option and its value
    run train "${tiny[@]}" --steps 40 --report-every 10 --lr 0.01 $how --out "well/${how##* }"
    check "$how: $(cat stderr)" test "$code" -eq 0
    check "$how has no note" test "$(cat stderr "well/${how##* }/summary.json" | grep -c 'not converged')" -eq 0
done
exits 0 report few/whole few/seed well --sections runs --out few.html
check "the page" grep -Eq "Note: Soft Musec, K=1: in 2 of 2 runs ${words//\'/.*}" few.html
check "one note" test "$(grep -c 'clip has not converged' few.html)" -eq 1

# ---- sweeps ----------------------------------------------------------------------------------------

set=()
for ((i = 0; i < ${#tiny[@]}; i += 2)); do set+=(--set "${tiny[i]#--}=${tiny[i + 1]}"); done
exits 0 sweep --optimizer sgdm,muon --lr 0.01,1000000 "${set[@]}" --set steps=30 --out runs
prints '^sgdm +0.01 +0 +done +30 ' '^sgdm +1000000 +0 +diverged +30 '
prints '^4 runs in runs: 2 done, 2 diverged$'
idle_sweep=(sweep --optimizer sgdm --lr 1e-12 "${set[@]}" --set aux-lr=1e-12 --set steps=100 --out stalls)
exits 0 "${idle_sweep[@]}"
prints '^sgdm +1e-12 +0 +stalled +100 ' '^1 run in stalls: 1 stalled$'
stamp=$(stat -c '%y %i' stalls/*/summary.json)
exits 0 "${idle_sweep[@]}" --json
check "it is not made again" test "$(stat -c '%y %i' stalls/*/summary.json)" = "$stamp"
check "JSON" grep -q '"status": "stalled"' stdout
check "it was there" grep -q '"was_there": true' stdout

# ---- reports ---------------------------------------------------------------------------------------

cp -r idle stalls/again
rm -r stalls/again/checkpoint
exits 0 report runs stalls --sections runs --out page.html --csv csv
check "the runs" python3 - <<'P'
import csv
runs = list(csv.DictReader(open("csv/runs.csv")))
status = sorted(r["status"].split(":")[0] for r in runs)
assert status == ["diverged"] * 2 + ["done"] * 2 + ["stalled"] * 2, status
P
check "the lead" grep -q '2 diverged, 2 stalled' page.html

# A summary by an older version says done and has no unigram loss.
python3 - <<'P'
import glob, json
for path in glob.glob("stalls/*/summary.json"):
    s = json.load(open(path))
    del s["unigram_loss"]
    json.dump(dict(s, status="done", reason=None), open(path, "w"))
P
exits 0 report stalls --sections runs --out page.html --csv csv
check "the status of older runs is that of their logs" python3 - <<'P'
import csv
runs = list(csv.DictReader(open("csv/runs.csv")))
assert runs and all(r["status"] == "stalled" for r in runs), runs
assert all(r["reason"].startswith("its loss never fell 5% below its first loss") for r in runs), runs
P
rm -r stalls/again
run "${idle_sweep[@]}"
prints '^sgdm +1e-12 +0 +stalled +100 '

finish
