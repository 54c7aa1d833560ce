# sweep.sh - grids of runs: their files, resuming after kills and signals, runs that diverge, two sweeps
# at once, and wrong usage.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

tiny=(--set layers=1 --set width=16 --set heads=1 --set head=16 --set mlp=16 --set batch=64
    --set max-doc=32 --set val-tokens=64)
# 12 runs, one of which diverges by its learning rate
cat >grid.json <<'J'
{"preset": "pico",
 "set": {"layers": 1, "width": 16, "heads": 1, "head": 16, "mlp": 16, "batch": 64, "max_doc": 32,
         "val_tokens": 64, "report_every": 2, "steps": 8, "qk_norm": false,
         "diverge_factor": 1.1, "diverge_steps": 2},
 "grids": [
   {"optimizer": ["soft-musec", "spectra"], "lr": [0.02, 0.1], "seed": [0, 1]},
   {"optimizer": "muon", "rows": [{"lr": 0.02, "beta": 0.1}, {"lr": 0.05, "beta": 0.2},
                                  {"lr": 0.1, "beta": 0.1}]},
   {"optimizer": "sgdm", "lr": 0.1, "aux_lr": 1000}]}
J

# untimed_runs DIR: the logs of a sweep without times.
untimed_runs() {
    local d
    for d in "$1"/*/; do
        [ ! -e "$d/log.jsonl" ] || { basename "$d" && untimed "$d"; }
    done
}
count() { echo $#; }
stamps() { stat -c '%n %y %i' "$1"/*/summary.json; }
# finishes DIR ARGUMENT...: the sweep ends there with the logs of the uninterrupted one in `calm.log`.
finishes() {
    local dir=$1
    shift
    exits 0 sweep "$@" --out "$dir"
    untimed_runs "$dir" >again.log
    check "$dir: the logs are those of an uninterrupted sweep" cmp calm.log again.log
}

# ---- without starting runs -------------------------------------------------------------------------

succeeds sweep grid.json --out calm --dry-run
prints '^optimizer +lr +beta +seed +status +steps +val loss +time +directory$'
prints '^soft-musec +0.02 +0.05 +0 +waiting +0 +- +- +pico-soft-musec-lr0.02-s0-[0-9a-f]{12}$'
prints '^12 runs in calm: 12 waiting$'
check "--dry-run writes nothing" test ! -e calm

warns '^threshold has no effect on muon: 1 run instead of 4$' sweep --optimizer muon,soft-musec \
    --threshold 0.1,0.2,0.5,1 "${tiny[@]}" --out none --dry-run
prints '^5 runs in none: 5 waiting$'

# ---- a sweep ---------------------------------------------------------------------------------------

exits 0 sweep grid.json --out calm # though a run diverged
check "a line for each run" test "$(grep -Ec '^[0-9]+ of 12 runs, [0-9]+ s: pico-' stderr)" -eq 12
check "no carriage return where stderr is no terminal" test -z "$(tr -dc '\r\033' <stderr)"
prints '^sgdm +0.1 +0.05 +0 +diverged +[0-9]+ ' '^12 runs in calm: 11 done, 1 diverged$'
check "docs/formats.md works the keys out" python3 - calm/pico-* <<'P'
import os, re, subprocess, sys
page = open(os.environ["MUSEC_SOURCE"] + "/docs/formats.md").read()
code = re.search(r"python3 -c '(.*?)' OUT/", page, re.S).group(1).replace("\n    ", "\n")
for run in sys.argv[1:]:
    key = subprocess.run([sys.executable, "-c", code, run], capture_output=True, text=True, check=True)
    assert run.endswith("-" + key.stdout.strip()), (run, key.stdout)
P
check "every table row is a directory" test "$(awk '/ pico-/ {print $NF}' stdout | sort)" \
    = "$(cd calm && ls -d pico-*)"
for f in config.json log.jsonl summary.json output.txt; do
    check "a $f each" test "$(count calm/*/$f)" -eq 12
done
check "no checkpoints of finished runs" test ! -e "$(echo calm/*/checkpoint)"
untimed_runs calm >calm.log
stamps calm >before
succeeds sweep grid.json --out calm
prints '^12 runs in calm: 11 done, 1 diverged$'
stamps calm >after
check "nothing is repeated" cmp before after
succeeds sweep grid.json --out calm --json
json_passes <<'P'
import os
assert len(out) == 12 and len({r["key"] for r in out}) == 12
assert [r["status"] for r in out] == ["done"] * 11 + ["diverged"]
for r in out:
    assert r["was_there"] and os.path.isdir(r["dir"]) and r["dir"].endswith(r["key"][:12])
    assert r["config"] == json.load(open(r["dir"] + "/config.json"))
    assert r["status"] != "done" or (r["steps"] == 8 and r["val_loss"] > 0)
assert json.load(open("calm/sweep.json")) == json.load(open("grid.json"))
P
# sweep.json is the sweep's grid; another grid shares the runs that it has in common with it
succeeds sweep calm/sweep.json --out calm
succeeds sweep grid.json --optimizer muon,spectra --lr 0.02 --seed 0 --out calm --dry-run
prints '^8 runs in calm: 6 waiting, 2 done$'

# the run that diverged is in the plot, at the upper edge
succeeds report calm --out calm.html --csv numbers
python3 - <<'P' && pass || fail "the run that diverged is not in the plot"
import csv, re
page = open("calm.html", encoding="utf-8").read()
assert "12 runs of 5 methods, 1 diverged" in page
plot = page[page.index('id="figure-loss-lr"'):]
plot = plot[:plot.index("</figure>")]
points = {title: float(y) for y, title in
          re.findall(r'<circle[^>]*cy="([0-9.]+)"[^>]*><title>([^<]*)</title>', plot)}
ill = [title for title in points if "diverged" in title]
assert len(points) == 8 and len(ill) == 1 and ill[0].startswith("SGDM: lr 0.1, diverged"), points
assert points[ill[0]] == min(points.values()), points # y goes down
rows = list(csv.DictReader(open("numbers/loss-lr.csv")))
assert [(r["curve"], r["y"]) for r in rows if r["diverged"] != "0"] == [("SGDM", "")], rows
P

# ---- flags -----------------------------------------------------------------------------------------

flags=(sweep --optimizer 'musec,muon' --lr '0.02, 0.1' --weight-decay 'qk=1.2,mlp=0.3;0' --ns-iters 3
    --grid init-up=0.5 --set steps=3 "${tiny[@]}")
succeeds "${flags[@]}" --dry-run --out flags
prints '^optimizer +lr +weight-decay +seed' '^musec +0.1 +0 +0 +waiting'
prints '^muon +0.02 +[a-z]*=0,qk=1.2,vo=0,mlp=0.3 ' '^8 runs in flags: 8 waiting$'
succeeds "${flags[@]}" --data builtin --data builtin:3 --seed 0,1 --dry-run
prints '^32 runs in runs/sweep: 32 waiting$'
exits 0 sweep --lr 0.1 --set steps=3 "${tiny[@]}" --data builtin:3 --keep-checkpoints \
    --device cpu,cpu --threads 1 --out kept
check "checkpoints are kept if asked" test -d "$(echo kept/*/checkpoint)"
check "the device is not part of the run" test "$("$MUSEC" sweep kept/sweep.json --out kept | tail -n 1)" \
    = "1 run in kept: 1 done"

# ---- kills and signals -----------------------------------------------------------------------------

# Runs are to be stopped in their middle, so each shall take about half a second.
run sweep --set steps=200 "${tiny[@]}" --out short --json
steps=$(python3 -c 'import json
print(min(20000, max(100, int(0.6 * 200 / json.load(open("stdout"))[0]["time_s"]))))')
cat >longer.json <<J
{"set": {"layers": 1, "width": 16, "heads": 1, "head": 16, "mlp": 16, "batch": 64, "max_doc": 32,
         "val_tokens": 64, "steps": $steps, "checkpoint_every": $((steps / 4))},
 "grids": [{"optimizer": ["soft-musec", "muon"], "lr": [0.02, 0.05]}]}
J
exits 0 sweep longer.json --out long --jobs 2
untimed_runs long >calm.log
# stop.py MUSEC OUT WHOM SIGNAL: starts the sweep, sends the signal when a run is in its middle
# and another has ended, and prints how the sweep ended.
cat >stop.py <<'P'
import glob, json, os, shutil, signal, subprocess, sys, time
musec, out, whom, name, *more = sys.argv[1:]
steps = json.load(open("longer.json"))["set"]["steps"]
def is_in_middle(pid):
    with open(os.path.dirname(os.readlink(f"/proc/{pid}/fd/1")) + "/log.jsonl") as log: # output.txt is beside it
        return steps / 8 < sum(1 for _ in log) < steps * 5 / 8
def middle(job):
    """A run of ours that is in its middle and was stopped there, however slow we are; or None."""
    for pid in open(f"/proc/{job.pid}/task/{job.pid}/children").read().split():
        try:
            if not is_in_middle(pid): continue
            os.kill(int(pid), signal.SIGSTOP)
            while open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "TZX": pass
            if is_in_middle(pid): return int(pid)
            os.kill(int(pid), signal.SIGCONT)
        except (OSError, ValueError):
            pass
target = None
while target is None: # on a busy machine all runs may end before one is caught
    shutil.rmtree(out, ignore_errors=True)
    job = subprocess.Popen([musec, "sweep", "longer.json", "--out", out, "--jobs", "2", *more],
                           start_new_session=True, stdout=subprocess.DEVNULL, stderr=open(out + ".err", "w"))
    while job.poll() is None and target is None:
        if glob.glob(out + "/*/summary.json"): target = middle(job)
        time.sleep(0.005)
if whom == "group": os.killpg(job.pid, getattr(signal, name))
else: os.kill(target if whom == "run" else job.pid, getattr(signal, name))
try: os.kill(target, signal.SIGCONT)
except ProcessLookupError: pass # killed, and its sweep has noticed
print(job.wait(900))
P
# Runs whose sweep is killed stop by themselves: these steps would take hours.
python3 - "$MUSEC" <<'P' && pass || fail "runs go on without their sweep"
import glob, os, subprocess, sys, time
job = subprocess.Popen([sys.argv[1], "sweep", "longer.json", "--set", "steps=100000000", "--jobs", "2",
                        "--out", "orphans"], stderr=subprocess.DEVNULL)
def wait_for(what):
    while not what():
        time.sleep(0.01)
wait_for(lambda: len(glob.glob("orphans/*/log.jsonl")) == 2)
job.kill()
job.wait(900)
wait_for(lambda: len(glob.glob("orphans/*/summary.json")) == 2)
assert all('"interrupted"' in open(f).read() for f in glob.glob("orphans/*/summary.json"))
P
# On a terminal there is a table that is redrawn and removed at the end.
python3 - "$MUSEC" >screen <<'P' && pass || fail "on a terminal: $(cat -v screen)"
import os, pty, re, subprocess, sys
master, slave = pty.openpty()
job = subprocess.Popen([sys.argv[1], "sweep", "longer.json", "--out", "shown", "--jobs", "2"],
                       stdout=subprocess.DEVNULL, stderr=slave)
os.close(slave)
text = b""
try:
    while (more := os.read(master, 4096)): text += more
except OSError: # the other side is closed
    pass
os.write(1, text)
assert job.wait(900) == 0
assert text.startswith(b"4 runs, 0 of them finished; 2 at once")
assert re.search(rb"4 runs: 2 waiting, \d:\d\d gone", text) and b"tok/s" in text and b"left" in text
assert b" of 4 runs" not in text and text.rstrip().endswith(b"A\x1b[J"), text[-40:]
P
check "the sweep is killed" test "$(python3 stop.py "$MUSEC" killed sweep SIGKILL)" = -9
check "it was in the middle" test "$(grep -l '"done"' killed/*/summary.json | wc -l)" -lt 4
grep -l '"done"' killed/*/summary.json >finished
xargs stat -c '%n %y %i' <finished >before
finishes killed longer.json --jobs 2 # at once: its runs may still be writing their checkpoints
xargs stat -c '%n %y %i' <finished >after
check "what was finished is not repeated" cmp before after
check "one run is killed: exit 1" test "$(python3 stop.py "$MUSEC" one run SIGKILL)" = 1
check "it is named: $(cat one.err)" grep -Eq \
    'musec sweep: 1 of 4 runs failed, the first by signal 9: see one/pico-.*/output.txt$' one.err
check "the others went on" test "$(count one/*/summary.json)" -eq 3
finishes one longer.json

check "Ctrl-C: exit 130" test "$(python3 stop.py "$MUSEC" stopped group SIGINT)" = 130
check "it is answered at once" grep -qx \
    'stopping: runs write their checkpoints; again to stop now' stopped.err
check "it says how to go on: $(cat stopped.err)" \
    grep -qx 'musec sweep: interrupted; the same command goes on' stopped.err
check "with checkpoints" test "$(grep -l interrupted stopped/*/summary.json | wc -l)" -ge 1
finishes stopped longer.json
check "SIGTERM: exit 143" test "$(python3 stop.py "$MUSEC" termed sweep SIGTERM)" = 143
finishes termed longer.json

# ---- the best of a sweep, with more seeds and at larger rates ----------------------------------------

best=(sweep --best-of calm --times 1,5 --seed 0,1,2 --out calm)
succeeds "${best[@]}" --dry-run --json
json_passes <<'P'
import collections, glob
want = {} # of the methods with two runs or more the lowest mean loss over the seeds
losses = collections.defaultdict(list)
for f in glob.glob("calm/*/summary.json"):
    c = json.load(open(f.replace("summary", "config")))
    s = json.load(open(f))
    if s["status"] == "done": losses[c["optimizer"], c["lr"], c["beta"]].append(s["last_val_loss"])
for (optimizer, lr, beta), values in losses.items():
    if sum(len(v) for k, v in losses.items() if k[0] == optimizer) < 2: continue
    mean = sum(values) / len(values)
    if optimizer not in want or mean < want[optimizer][0]: want[optimizer] = (mean, lr, beta)
got = collections.defaultdict(set)
for r in out: got[r["optimizer"]].add((r["lr"], r["config"]["beta"], r["config"]["seed"]))
assert got.keys() == want.keys() and len(out) == 6 * len(want), (got, want)
for optimizer, (_, lr, beta) in want.items():
    assert {round(x[0] / lr) for x in got[optimizer]} == {1, 5}, (optimizer, got)
    assert {x[1] for x in got[optimizer]} == {beta} and {x[2] for x in got[optimizer]} == {0, 1, 2}
assert any(r["was_there"] for r in out)
P
cp -r calm damaged
echo "{" >"$(echo damaged/*-spectra-lr0.1-s0-*)/config.json"
warns '^note: damaged/.*spectra-lr0.1-s0.*: this run is left out$' sweep --best-of damaged --dry-run
rm -r damaged
succeeds sweep --best-of calm --keep-checkpoints --dry-run --json --out calm
json_passes <<'P'
assert out and all(r["config"]["checkpoints"] == "all" for r in out), out
P
check "the device of a run is in its config" grep -q '"device": "cpu"' kept/*/config.json
succeeds sweep --best-of kept --dry-run --json --out kept
json_passes <<'P'
assert out and all(r["config"]["device"] == "" for r in out), "another machine may have other devices"
P
fails 1 "times wants values with ',' between, not '1,,5'" sweep --best-of calm --times 1,,5
cp -r calm flipped
sed -i '3s/"max_logit": ./"max_logit": 9/;3s/"max_logit": 9/"max_logit": 8/' \
    "$(echo flipped/pico-muon-lr0.02-*/log.jsonl)"
warns 'note: flipped/pico-muon-lr0.02-.*/log.jsonl: damaged: .*: this run is left out' \
    sweep --best-of flipped --out best --dry-run
fails 2 'give one of them' sweep grid.json --best-of calm
fails 2 'times is for --best-of' sweep --lr 0.1 --times 5
fails 1 'times is "5,x"' sweep --best-of calm --times 5,x
fails 1 'nowhere: cannot read' sweep --best-of nowhere

# ---- small directories, and a limit of time --------------------------------------------------------

check "without checkpoints, Ctrl-C: exit 130" test "$(python3 stop.py "$MUSEC" bare group SIGINT --no-checkpoints)" = 130
check "there are none" test ! -e "$(echo bare/*/checkpoint)"
cp -r bare elsewhere # as to another machine
finishes elsewhere longer.json --no-checkpoints
check "runs that were begun say that they begin anew" grep -Eq \
    ': it had made [0-9]+ of [0-9]+ steps, but there is no checkpoint: begun anew$' stderr
check "finished ones are kept" grep -q '^4 runs, [1-3] of them finished' stderr
check "nor are there any now" test ! -e "$(echo elsewhere/*/checkpoint)"
exits 1 sweep longer.json --time-limit 1e-9 --out late
check "what is missing" grep -qx \
    'musec sweep: the time limit: 4 of 4 runs are missing; the same command goes on' stderr
# a run that was stopped before, and does not begin now, is one of those that are missing
succeeds sweep longer.json --dry-run --json --out late
mkdir -p "$(python3 -c 'import json; print(json.load(open("stdout"))[0]["dir"])')"
for f in config.json log.jsonl; do cp long/"$(basename late/*/)/$f" late/*/; done
echo '{"status": "interrupted"}' >"$(echo late/*/)summary.json"
exits 1 sweep longer.json --time-limit 1e-9 --out late
check "the limit is the reason" grep -q 'musec sweep: the time limit: 4 of 4 runs are missing' stderr
rm -r late
# The first run says what the others take: the limit is 1.5 of it, so that the second must wait.
limit=$(python3 -c 'import glob, json
print(1.5 / 60 * max(json.load(open(f))["time_s"] for f in glob.glob("long/*/summary.json")))')
run sweep longer.json --jobs 1 --time-limit "$limit" --out late
check "exit 1: $(cat stderr)" test "$code" -eq 1
check "what is missing, and how much work: $(tail -n 1 stderr)" grep -Eqx \
    'musec sweep: the time limit: [1-3] of 4 runs? (is|are) missing, about [0-9:]+ of work; the same command goes on' \
    stderr
check "the run that fits is made" test "$(grep -l '"done"' late/*/summary.json | wc -l)" -ge 1
finishes late longer.json
fails 1 '--time-limit is -1' sweep --lr 0.1 --time-limit -1
fails 2 'give one of them' sweep --lr 0.1 --keep-checkpoints --no-checkpoints

# ---- two at once -----------------------------------------------------------------------------------

"$MUSEC" sweep longer.json --jobs 2 --out both >first.out 2>first.err &
finishes both longer.json --jobs 2
check "both come to their end" wait $!
check "both have the whole table" test "$(grep -c ' done ' first.out)" -eq 4
check "no run was made twice" test "$(cat first.err stderr | grep -c ': done, val')" -eq 4

# ---- wrong usage -----------------------------------------------------------------------------------

fails 2 '--optimizer: there is no optimizer "moun"; did you mean "muon"' sweep --optimizer muon,moun
fails 2 '--preset: there is no preset "picu"' sweep --preset pico,picu
fails 2 "--lr wants a number, not 'fast'" sweep --lr fast
fails 2 "--lr wants a number, not 'nan'" sweep --lr 0.1,nan
fails 2 "--seed wants a whole number, not '1.5'" sweep --seed 1.5
fails 2 "--weight-decay wants .*, not 'qk=x'" sweep --weight-decay 'qk=x;0.1'
fails 1 '^musec sweep: lr is "-1"; it must be a number from 0' sweep --lr 0.1,-1
fails 1 '^musec sweep: lr is "1e999"' sweep --lr 1e999
fails 1 '^musec sweep: seed is "-1"' sweep --seed -1
fails 1 '^musec sweep: lr is "fast"' sweep --grid lr=fast
fails 1 'no field "colour"' sweep --grid colour=red,blue
echo '{"grids": [{}, {"optimizer": ["muon", "soft-musek"]}]}' >bad.json
fails 1 'bad.json: grid 2: there is no optimizer "soft-musek"; did you mean "soft-musec"' sweep bad.json
echo '{"grids": [{"lr": 1,}]}' >bad.json
fails 1 'bad.json:1: ' sweep bad.json
fails 1 'nowhere.json' sweep nowhere.json
fails 1 'no device "abacus"' sweep --lr 0.1 --device cpu,abacus
fails 1 '--jobs must be from 0' sweep --lr 0.1 --jobs 1000
fails 1 'too long' sweep --lr 0.1 --out "$(printf "x%.0s" $(seq 4090))"
fails 1 'cannot|Not a directory' sweep --lr 0.1 --out /dev/null/x
fails 2 'wants GRID.json' sweep
fails 2 'lr wants values' sweep --lr 0.1,,0.2
fails 2 'grid wants FIELD=' sweep --grid lr
fails 2 'set wants FIELD=' sweep --set lr
fails 2 'wants only' sweep a.json b.json
# a field given by two kinds of flags
fails 2 '--grid steps=2,3 and --set steps=7 give the same field' sweep --set steps=7 --grid steps=2,3
fails 2 '--lr and --grid lr=0.1 give the same field' sweep --lr 0.2 --grid lr=0.1
fails 2 '--weight-decay and --set weight_decay=0 give' sweep --set weight_decay=0 --weight-decay 1
fails 2 '--data and --grid data=a,b give' sweep --data c --grid data=a,b
fails 2 '--device and --set device=cpu give' sweep --lr 1 --device cpu --set device=cpu
check "nothing was written" test ! -e runs

# with missing data no run is started
fails 1 'no-such-text.txt: cannot read' sweep --set steps=3 "${tiny[@]}" --data builtin \
    --data no-such-text.txt --out without
fails 1 'no-such-text.txt: cannot read' sweep --lr 0.1 --set val_data=no-such-text.txt --out without
check "no directory was made" test ! -e without

# when a run cannot begin, the others are made, and the table has all of them
exits 1 sweep --set steps=3 "${tiny[@]}" --set threshold=quantile:0.5 --grid nonfinite=defer,stop \
    --device cpu --out partly
check "which and why: $(tail -n 1 stderr)" grep -Eq \
    '1 of 2 runs failed, the first with "musec train: nonfinite is defer.*see partly/pico.*/output.txt' stderr
prints '^2 runs in partly: 1 done, 1 failed$'

# on a full disk it fails with a message; with space the same command goes on
full=(--lr 0.1,0.2 --set steps=3 "${tiny[@]}" --keep-checkpoints --out full)
(
    ulimit -f 8 # blocks of a file
    "$MUSEC" sweep "${full[@]}" >stdout 2>stderr
)
check "exit 1" test $? -eq 1
check "which and why: $(tail -n 1 stderr)" grep -Eq \
    '^musec sweep: 2 of 2 runs failed, the first with ".*checkpoint.*cannot write' stderr
run sweep "${full[@]}"
prints '^2 runs in full: 2 done$'

# a run with a damaged summary is made to its end, the others are left alone
untimed_runs calm >calm.log
cp -r calm torn
for text in '' '{"status": "do' '[]' '{"status": "finished"}'; do
    printf '%s' "$text" >"$(echo torn/pico-muon-lr0.1-*/summary.json)"
    finishes torn grid.json
    check "only that one" grep -q '^1 of 1 run, ' stderr
done

# one with a flipped digit is not believed, nor replaced before somebody has looked at it
sed -i 's/"last_val_loss": [0-9]/"last_val_loss": 9/' "$(echo torn/pico-muon-lr0.1-*/summary.json)"
exits 1 sweep grid.json --out torn
check "it says so: $(cat stderr)" grep -Eq '1 of 12 runs failed.*summary.json: damaged: .*; remove it' stderr
rm "$(echo torn/pico-muon-lr0.1-*/summary.json)"
finishes torn grid.json

# directories with other contents
victim=$(cd calm && ls -d pico-muon-lr0.02*)
cp -r calm edited
sed -i 's/"beta": 0.1/"beta": 0.3/' "edited/$victim/config.json"
fails 1 "edited/$victim/config.json says beta 0.3, not 0.1" sweep grid.json --out edited
echo '{' >"edited/$victim/config.json"
fails 1 "edited/$victim/config.json:.*remove the directory" sweep grid.json --out edited
rm "edited/$victim/config.json"
fails 1 "edited/$victim/log.jsonl is there, but the config.json" sweep grid.json --out edited
rm -r "edited/$victim"
finishes edited grid.json
finish
