# report.sh - the page of runs of a few steps: its contents, its PNG and CSV files, and its notes on logs
# that are cut off, damaged, missing or of different runs.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way

if ! command -v rsvg-convert >/dev/null; then
    skip "rsvg-convert is not here"
    finish
fi
# train NAME ARGUMENT...: a tiny run in runs/NAME.
train() {
    local name=$1
    shift
    exits 0 train --quiet "${small_model[@]}" --batch 128 --val-tokens 256 --val-every 2 \
        --report-every 4 --steps 8 --stages '25% lr=1; rest lr=1.5' "$@" --out "runs/$name"
}
train muon_a --optimizer muon --lr 0.05
train muon_a1 --optimizer muon --lr 0.05 --seed 1
train muon_b --optimizer muon --lr 0.2
train muon_b1 --optimizer muon --lr 0.2 --seed 1
train muon_wild --optimizer muon --lr 2 --weight-decay 1e9 # (1 - lr decay) W overflows
check "it diverged" grep -q '"status": "diverged"' runs/muon_wild/summary.json
for lr in 0.2 0.4; do
    for threshold in 0.25 1; do
        train "soft_${lr}_$threshold" --optimizer soft-musec --ns-mode paper --lr $lr \
            --threshold $threshold
    done
done
train soft_exact --optimizer soft-musec --lr 0.2 --threshold 0.25 --ns-mode exact
train soft_k3 --optimizer soft-musec --lr 0.2 --threshold 0.25 --ns-iters 3

# ---- the page --------------------------------------------------------------------------------------

succeeds report runs --out page.html --png png --csv csv --title 'A <title> & "more"'
check "its path on stdout" test "$(cat stdout)" = page.html
check "a page" test -s page.html
run report runs --out /dev/stdout --sections runs
check "nothing behind a page on stdout" test "$code $(tail -n 1 stdout)" = '0 </html>'
check "its path on stderr then" test "$(cat stderr)" = /dev/stdout
run report runs --out /dev/stdout --sections runs --json
check "nor JSON" test "$code $(tail -n 1 stdout)" = '0 </html>'
check "which is there too" grep -q '"out": "/dev/stdout"' stderr
check "nothing left behind" test -z "$(find . -name '*.part*')"
check "its title" grep -q 'A &lt;title&gt; &amp; &quot;more&quot;' page.html
# the names of the SVG and XLink namespaces are no addresses
check "nothing from elsewhere" test -z "$(sed -E 's,http://www.w3.org/(2000/svg|1999/xlink),,g' page.html |
    grep -Ei 'https?:|["'"'"'(]//[a-z0-9-]|@import|<link|src=')"
check "diverged is said" grep -q '<span class="badge b-diverged">diverged</span>: the loss is not finite' page.html
check "where it was made" grep -Eq '^<p>11 runs made on 20[0-9-]{8} by musec ' page.html
check "what is not there" grep -q 'Learning rate, logits and speed</td><td>Needs a page of six runs' page.html
for id in loss-lr controls effective-step stability dynamics weight-norm effective-rank \
    clip-activity step-time threshold ns-iters architecture training hyperparameters runs; do
    check "section $id" grep -q "id=\"$id\"" page.html
done
valid_page page.html '{"loss-lr": [["Soft Musec", "Muon"]],
 "controls": [["Soft Musec", "Soft Musec, exact", "Muon at lr", "Muon at lr·D"]],
 "threshold": [["D = 0.25", "D = 1"], ["D = 0.25", "D = 1"]],
 "ns-iters": [["K = 3", "K = 5"]]}'

# width and height stand big-endian at byte 16
check "PNG files of 1600 pixels or more" python3 -c 'import glob, struct
files = glob.glob("png/*.png")
assert len(files) >= 10, files
for name in files:
    head = open(name, "rb").read(24)
    assert head[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", head[16:20])[0] >= 1600, name'

# ---- the numbers, from the logs themselves -----------------------------------------------------------

cat >numbers.py <<'END'
import csv, json, math

def table(name):
    with open(f"csv/{name}.csv", newline="", encoding="utf-8") as f:
        rows = list(csv.reader(f))
    assert all(len(row) == len(rows[0]) for row in rows), name
    return [dict(zip(rows[0], row)) for row in rows[1:]]

def log(run):
    return [json.loads(line) for line in open(f"runs/{run}/log.jsonl")]

def last_val(run):
    return [line["val_loss"] for line in log(run) if "val_loss" in line][-1]

def curve(name, label, panel=None):
    return {float(r["x"]): r for r in table(name)
            if r["curve"] == label and (panel is None or r["panel"] == panel)}

def near(a, b):
    assert math.isclose(float(a), b, rel_tol=1e-9), (a, b)

muon = curve("loss-lr", "Muon")
assert sorted(muon) == [0.05, 0.2, 2.0], muon
seeds = {0.05: [last_val("muon_a"), last_val("muon_a1")],
         0.2: [last_val("muon_b"), last_val("muon_b1")]}
for lr, losses in seeds.items():
    near(muon[lr]["y"], sum(losses) / 2)
    near(muon[lr]["low"], min(losses))
    near(muon[lr]["high"], max(losses))
assert muon[2.0]["y"] == "" and muon[2.0]["diverged"] == "1", muon[2.0]

soft = curve("loss-lr", "Soft Musec")
for lr in (0.2, 0.4):
    near(soft[lr]["y"], min(last_val(f"soft_{lr}_{d}") for d in ("0.25", "1")))

# Muon was run at 0.2 x 0.25, and exact with that threshold
near(curve("controls", "Muon at lr·D")[0.2]["y"], sum(seeds[0.05]) / 2)
near(curve("controls", "Soft Musec")[0.2]["y"], last_val("soft_0.2_0.25"))
near(curve("controls", "Soft Musec, exact")[0.2]["y"], last_val("soft_exact"))

# the curve of the only rate that most methods share
val = curve("dynamics-val", "Muon", "lr 0.2")
want = {line["step"]: line["val_loss"] for line in log("muon_b") if "val_loss" in line}
assert sorted(val) == sorted(want) == [2, 4, 6, 8], val
for step, y in want.items():
    near(val[step]["y"], y)
for group in ("qk", "vo", "mlp"):
    got = curve("weight-norm", "Muon", group.upper())
    for line in log("muon_b"):
        if "groups" in line:
            near(got[line["step"]]["y"], line["groups"][group]["w_norm"])

applied = [line["lr"] * line["groups"][g]["u_norm"] for run in ("muon_a", "muon_a1")
           for line in log(run) if "groups" in line for g in ("qk", "vo", "mlp")]
xs = [r for r in table("effective-step") if r["curve"] == "Muon" and "norm" in r["panel"]]
assert any(math.isclose(float(r["x"]), sum(applied) / len(applied), rel_tol=1e-9) for r in xs), xs

runs = {r["run"]: r for r in table("runs")}
assert len(runs) == 11 and runs["muon_wild"]["status"] == "diverged"
assert runs["muon_wild"]["reason"] == "the loss is not finite" and runs["muon_a"]["reason"] == ""
assert runs["muon_a"]["steps"] == runs["muon_a"]["steps asked"] == "8", runs["muon_a"]
assert runs["soft_k3"]["method"] == "Soft Musec, K=3" and runs["muon_b1"]["seed"] == "1"
losses = {r["K"]: r["validation loss"] for r in table("ns-iters-losses")}
near(losses.pop("3"), last_val("soft_k3"))
near(losses.pop("5"), last_val("soft_0.2_0.25"))
assert not losses, losses
row = [r for r in table("stability") if r["method"] == "Muon"][0]
assert row["diverged"] == "1" and row["runs"] == "5" and row["loss there"] == "", row

# columns of numbers hold numbers alone, or nothing
words = {"problem", "method", "edge of the grid", "run", "status", "reason", "D", "panel", "curve", "group"}
for name in ("stability", "runs", "hyperparameters", "ns-iters-losses", "step-times", "loss-lr", "steps", "groups"):
    for row in table(name):
        for key, value in row.items():
            assert key in words or value == "" or math.isfinite(float(value)), (name, key, value)

# the flat tables are the logs
steps, groups = table("steps"), table("groups")
def said(x): return "" if x is None else x
for run in runs:
    lines = log(run)
    got = [r for r in steps if r["run"] == run]
    assert [int(r["step"]) for r in got] == [line["step"] for line in lines], run
    for r, line in zip(got, lines):
        for key in ("tokens", "loss", "val_loss", "lr", "tok_s", "max_logit"):
            want = said(line.get(key))
            assert r[key] == "" if want == "" else float(r[key]) == want, (run, key, r[key], want)
    got = iter([r for r in groups if r["run"] == run])
    for line in lines:
        for group, values in line.get("groups", {}).items():
            r = next(got)
            assert (int(r["step"]), r["group"]) == (line["step"], group), r
            assert set(r) == {"run", "step", "group"} | set(values), r
            assert all((r[k] == "") if v is None else float(r[k]) == v for k, v in values.items()), r
    assert next(got, None) is None, run
assert list(steps[0])[:4] == ["run", "step", "tokens", "loss"] and len(groups) >= 3 * len(runs)
END
python3 numbers.py >numbers.out 2>&1
check "CSV: $(tail -1 numbers.out)" test ! -s numbers.out

# ---- the same runs, the same page --------------------------------------------------------------------

cp -r runs again
python3 - <<'END'
import glob, json
for name in glob.glob("again/*/log.jsonl"):
    lines = [json.loads(line) for line in open(name)]
    for line in lines:
        line.update(tok_s=1.5, time_s=line["step"] * 7.0)
        line["ms"] = {key: 99.0 for key in line["ms"]}
    with open(name, "w") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
for name in glob.glob("again/*/summary.json"):  # as of a version that kept no checksums
    summary = json.load(open(name))
    del summary["log"], summary["sha256"]
    json.dump(summary, open(name, "w"))
END
succeeds report runs --omit-times --out one.html --csv one
succeeds report again --omit-times --out two.html --csv two
check "the same page although times differ" cmp one.html two.html
check "the same numbers" diff -r one two
check "no times" test ! -e one/step-time.csv
succeeds report again --out three.html
check "with times the page differs" test "$(cmp two.html three.html | wc -l)" -eq 1
succeeds report runs/muon_a runs/muon_b runs/muon_b --sections runs,threshold --json --out four.html
json_is runs=2 sections='["threshold", "runs"]'
check "a section that cannot be says why" grep -q 'Left out: these runs do not allow it. Needs' four.html

# ---- pages of some runs -------------------------------------------------------------------------------

check "without times the page does not say where and when" test "$(grep -c 'runs made' one.html)" -eq 0

# the page of one run has its learning rate, logits and speed
succeeds report runs/muon_a --out single.html --csv single
check "the lead" grep -q '<p class="lead">Muon at lr 0.05, pico, builtin: done, 8 of 8 steps, validation loss' single.html
check "its progress" python3 -c 'import csv, json
rows = list(csv.DictReader(open("single/progress.csv")))
log = [json.loads(line) for line in open("runs/muon_a/log.jsonl")]
for panel, key in (("learning rate", "lr"), ("largest attention logit", "max_logit"), ("speed", "tok_s")):
    got = [float(r["y"]) for r in rows if r["panel"] == panel]
    assert got == [line[key] for line in log], (panel, got)'

cp -r runs cut
python3 -c 'import os
os.truncate("cut/muon_a/log.jsonl", os.path.getsize("cut/muon_a/log.jsonl") - 40)'
exits 0 report cut --omit-times --out cut.html --csv csv_cut
check "one note" test "$(cat stderr)" \
    = "musec report: note: cut/muon_a/log.jsonl: line 8 is cut off and left out"
check "the page says so" grep -q 'line 8 is cut off and left out' cut.html
check "only that line is lost" python3 -c 'import csv, json
def rows(d): return {r["run"]: r for r in csv.DictReader(open(d + "/runs.csv"))}
whole, cut = rows("csv"), rows("csv_cut")
last = json.load(open("runs/muon_a/summary.json"))["last_val_loss"] # the summary has it still
assert cut["muon_a"]["steps"] == "7" and cut["muon_a"]["steps asked"] == "8"
assert float(cut["muon_a"]["validation loss"]) == last
assert all(cut[name] == row for name, row in whole.items() if name != "muon_a")'

cp -r runs damaged
sed -i '3s/"loss"/"lo/' damaged/muon_b/log.jsonl
fails 1 '^musec report: damaged/muon_b/log.jsonl: line 3: ' report damaged/muon_b --out damaged.html
check "no page" test ! -e damaged.html
# a run that cannot be read is left out of the page
: >damaged/soft_k3/config.json
exits 0 report damaged --out damaged.html --csv csv_damaged
for note in 'damaged/muon_b/log.jsonl: line 3: ' 'damaged/soft_k3/config.json:1: '; do
    check "$note: on stderr" grep -q "^musec report: note: $note.*: this run is left out$" stderr
    check "$note: on the page" grep -q "Note: $note" damaged.html
done
check "the others are there" python3 -c 'import csv
def names(d): return {r["run"] for r in csv.DictReader(open(d + "/runs.csv"))}
assert names("csv") - names("csv_damaged") == {"muon_b", "soft_k3"}, names("csv_damaged")'
mkdir bad
cp -r damaged/muon_b damaged/soft_k3 bad
fails 1 'bad: none of its 2 runs can be read; the first: bad/muon_b/log.jsonl: line 3: ' report bad
rm damaged/soft_k3/log.jsonl
# a learning rate of 0
cp -r runs still
train ../still/zero --optimizer muon --lr 0
warns 'note: still/zero: its lr is 0: at the left edge' report still --out still.html --csv csv_still
check "lr 0: the run is in the tables" python3 -c 'import csv
assert [r["lr"] for r in csv.DictReader(open("csv_still/runs.csv")) if r["run"] == "zero"] == ["0"]
assert "0" in [r["x"] for r in csv.DictReader(open("csv_still/loss-lr.csv")) if r["curve"] == "Muon"]
assert not any("inf" in r.values() for r in csv.DictReader(open("csv_still/stability.csv")))'

rm damaged/muon_b/log.jsonl damaged/muon_b/config.json
rm damaged/muon_a/summary.json
warns '^musec report: note: damaged/muon_a: unfinished, 8 of 8' report damaged --out unfinished.html

train longer --optimizer muon --lr 0.05 --steps 12
warns '^musec report: note: .*differ in steps \((8 and 12|12 and 8)\)' \
    report runs --out mixed.html --csv mixed
check "different runs are drawn apart" python3 -c 'import csv
rows = list(csv.DictReader(open("mixed/hyperparameters-pico-builtin-steps-12.csv")))
assert len(rows) == 1 and rows[0]["lr"] == "0.05", rows'
rm -r runs/longer

# ---- wrong usage ----------------------------------------------------------------------------------------

mkdir empty
fails 1 'empty: no run in it' report empty
fails 1 'nowhere' report nowhere
fails 2 'did you mean "loss-lr"' report runs --sections los-lr
fails 2 'there is no section "xyz"' report runs --sections runs,xyz
fails 2 '--sections is empty' report runs --sections ,
fails 1 '--within is 2; it must be a share' report runs --within 2
fails 2 '--within wants a number' report runs --within wide
fails 2 'RUN' report
sha256sum runs/*/* 2>/dev/null >sums
fails 1 '--out .*config.json would replace a file of a run' report runs --out runs/./muon_a/config.json
check "and does not" sha256sum --quiet -c sums
fails 1 'nodir' report runs --out nodir/page.html
check "no directory was made" test ! -e nodir
# an archive of the runs gives the same numbers, and the same archive
if "$MUSEC" info 2>/dev/null | grep -qi 'lzma'; then
    exits 0 report runs --out direct.html --csv direct --omit-times --archive runs.tar.xz
    exits 0 report runs.tar.xz --out opened.html --csv opened --omit-times --archive again.tar.xz
    check "the same archive" cmp runs.tar.xz again.tar.xz
    check "the same losses to six digits" python3 -c 'import csv
a, b = (list(csv.DictReader(open(d + "/loss-lr.csv"))) for d in ("direct", "opened"))
assert len(a) == len(b) > 3
for x, y in zip(a, b):
    assert x["curve"] == y["curve"] and x["x"] == y["x"]
    assert x["y"] == y["y"] or abs(float(x["y"]) - float(y["y"])) <= 1e-5 * float(x["y"])'
    check "runs are named by the archive" grep -q 'muon_b1' opened.html
    cp -r runs/muon_a here
    (cd here && "$MUSEC" report . --out ../here.html --archive ../here.tar.xz >/dev/null 2>&1)
    exits 0 report here.tar.xz --out there.html --csv there
    check "a run that is . has the name of its directory" grep -q '^here,' there/runs.csv
    fails 1 '--archive and --out are one file: one.html' report runs --archive ./one.html --out one.html
    head -c 300 runs.tar.xz >cut.tar.xz
    fails 1 'cut.tar.xz: truncated' report cut.tar.xz
    fails 1 'nodir' report runs --archive nodir/a.tar.xz
    fails 1 '--archive .*log.jsonl would replace a file of a run' report runs --archive runs/muon_a/log.jsonl
    for option in --out --archive; do
        fails 1 "$option ./runs.tar.xz would replace an archive that is read" \
            report runs.tar.xz $option ./runs.tar.xz
    done
    exits 0 report runs.tar.xz --out opened.html
    mkdir scratch
    ( # files of 1 KiB at most, as on a disk that is nearly full
        trap '' XFSZ
        ulimit -f 1
        TMPDIR=$PWD/scratch exec "$MUSEC" report runs.tar.xz --out full.html
    ) >stdout 2>stderr
    code=$?
    check "exit $code: $(cat stderr)" test "$code" -eq 1
    check "the reason" grep -q 'scratch/.*: cannot be written (File too large)' stderr
    check "nothing is left there" rmdir scratch
else
    skip "this musec has no liblzma"
fi
succeeds report --help
prints '^  ns-iters +Iterations \(Figure 12 of the paper\)'

mkdir bin # no rsvg-convert on it
program=$MUSEC
printf '#!/bin/sh\nPATH=%s exec "%s" "$@"\n' "$PWD/bin" "$program" >without
chmod +x without
MUSEC=$PWD/without
fails 1 'install the package librsvg2-bin' report runs --out none.html --png pictures
check "nothing was written" test ! -e none.html
succeeds report runs --out alone.html
check "the page needs no other program" grep -q '<svg' alone.html
finish
