# paper_race.sh - steps to a target: tuning runs, then the chosen settings with other seeds; the page held to
# what a few lines of Python find in the logs.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

tiny=(--set layers=1 --set width=32 --set heads=1 --set head=32 --set mlp=64 --set steps=12
    --set val_every=4 --set val_tokens=512)
few=(--only optimizer=muon,adam) # Muon, with Nesterov, with beta 0.1, Adam

warns "each method's setting is run with 3 more seeds" paper race --dry-run
prints '^240 runs in .*: 240 waiting'
warns 'run with 5 more seeds' paper race --dry-run --seeds 5 --data builtin --data builtin:2
prints '^480 runs in .*: 480 waiting'
check "nothing was written" test ! -e runs

exits 0 paper race "${tiny[@]}" "${few[@]}" --seeds 2 --csv csv --device cpu
prints '^runs/paper/race-pico.html$'
check "8 tuning runs of each, and 2 more: $(ls -d runs/paper/runs/*/ | wc -l)" \
    test "$(ls -d runs/paper/runs/*/ | wc -l)" -eq 40
check "the page has the race" grep -q '<section id="race">' runs/paper/race-pico.html
check "its figure has names for rows" grep -q '>Muon, nesterov yes</text>' runs/paper/race-pico.html
check "it says how it was made" grep -q -- '--seeds 2 --only optimizer=muon,adam --set layers=1' runs/paper/race-pico.html
cat >race.py <<'P'
import csv, glob, json, math, sys

def steps(run, target):
    last = None
    for step, loss in run["losses"]:
        if loss <= target:
            return step if last is None else last[0] + (step - last[0]) * (last[1] - target) / (last[1] - loss)
        last = step, loss

runs = []
for path in glob.glob("runs/paper/runs/*/"):
    config = json.load(open(path + "config.json"))
    lines = [json.loads(line) for line in open(path + "log.jsonl")]
    runs.append({"name": (config["optimizer"], config["nesterov"], config["beta"]), "lr": config["lr"], "seed": config["seed"],
                 "losses": [(l["step"], l["val_loss"]) for l in lines if "val_loss" in l]})
tuning = [r for r in runs if r["seed"] == 0]
muon = min(r["losses"][-1][1] for r in tuning if r["name"] == ("muon", "no", 0.05))
target = float(sys.argv[1]) if len(sys.argv) > 1 else math.ceil(muon * 101) / 100
names = {"Muon": ("muon", "no", 0.05), "Muon, nesterov yes": ("muon", "yes", 0.05),
         "Muon, beta 0.1": ("muon", "no", 0.1), "Adam": ("adam", "no", 0.05)}
rows = list(csv.DictReader(open("csv/race-steps.csv")))
assert {r["method"] for r in rows} == set(names), rows
for row in rows:
    mine = [r for r in tuning if r["name"] == names[row["method"]]]
    key = lambda r: (steps(r, target) or math.inf, r["losses"][-1][1])
    best = min(mine, key=key)
    again = [r for r in runs if r["name"] == best["name"] and r["lr"] == best["lr"] and r["seed"] > 0]
    found = [steps(r, target) for r in again or [best]]
    assert abs(float(row["target"]) - target) < 1e-9 and row["tuning runs"] == "8" == str(len(mine)), row
    assert f"lr {best['lr']:g}" in row["setting"].split(" (")[0], (row, best)
    assert int(row["of runs"]) == len(found) and int(row["reached"]) == sum(s is not None for s in found), (row, found)
    if None not in found:
        assert abs(float(row["steps"]) - sum(found) / len(found)) < 1e-6, (row, found)
P
python3 race.py && pass || fail "the table is that of the logs"

run paper race "${tiny[@]}" "${few[@]}" --seeds 2 --dry-run
prints '^40 runs in .*: 40 done'
check "the device of a run is in its config" grep -q '"device": "cpu"' runs/paper/runs/*/config.json
succeeds paper race "${tiny[@]}" "${few[@]}" --seeds 3 --dry-run --json
json_passes <<'P'
more = [r for r in out if r["status"] == "waiting"]
assert len(more) == 4 and all(r["config"]["device"] == "" for r in more), "another machine may have other devices"
P
succeeds paper race "${tiny[@]}" "${few[@]}" --seeds 2 --target 1e-3 --no-run --csv csv
python3 race.py 1e-3 && pass || fail "none reaches a target of 0.001"
check "not reached is said" grep -q '<td[^>]*>not reached</td>' runs/paper/race-pico.html
succeeds report runs/paper/runs --target 5.5 --out page.html --csv csv
python3 race.py 5.5 && pass || fail "a target that is given"
succeeds report runs/paper/runs --out page.html
check "nobody asked for the race" test -z "$(grep '<section id="race">' page.html)"
succeeds report runs/paper/runs --sections race --omit-times --out page.html --csv csv
check "no times: $(head -n 1 csv/race-steps.csv)" test -z "$(grep seconds csv/race-steps.csv)"

exits 0 paper race "${tiny[@]}" --only optimizer=adam --no-run
check "without Muon it takes a target" grep -q 'without a target runs of Muon' runs/paper/race-pico.html
exits 0 paper race "${tiny[@]}" --only optimizer=adam --seeds 2 --no-run --target 5
fails 1 'target is -1; it must be a loss above 0' paper race --target -1
fails 2 'target wants a finite number' report runs/paper/runs --target nan
fails 1 'target is -2; it must be a loss above 0' report runs/paper/runs --target -2
fails 1 'target is for race alone, not for threshold' paper threshold --target 3
finish
