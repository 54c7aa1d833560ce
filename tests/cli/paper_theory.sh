# paper_theory.sh - musec paper theory: from its runs to its page, interrupted and resumed.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

succeeds paper theory --quick --dry-run
prints '^[0-9]+ settings of 2 seeds in runs/paper/theory: 0 done, [0-9]+ waiting$'
succeeds paper theorem --dry-run --json
check "five seeds" test "$(json seeds)" = 5
succeeds paper theory --quick --dry-run --seeds 1
prints '^[0-9]+ settings of 1 seed in runs/paper/theory: 0 done'
succeeds paper list --dry-run
prints '^theory +.* 153 +0 +some minutes +[0-9]+ +half an hour +-$'
fails 1 '--set is for trainings, and theory has none' paper theory --dry-run --set lr=1
fails 2 '--quick and --full: give one of them' paper theory --dry-run --quick --full
fails 1 '--quick is for theory alone, not for lr-sweep' paper lr-sweep --dry-run --quick
fails 1 '--quick is for theory alone, not for list' paper list --dry-run --quick
fails 1 '--seeds is "2,1"; theory has no sets of data' paper theory --dry-run --seeds 2,1
check "nothing was written" test ! -e runs
fails 1 'none of the settings of theory' paper theory --quick --no-run
rm -rf runs

# Interrupted when some settings are made; the same command makes the others.
python3 - "$MUSEC" <<'P' && pass || fail "SIGINT"
import glob, signal, subprocess, sys, time
job = subprocess.Popen([sys.argv[1], "paper", "theory", "--quick"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, text=True)
while job.poll() is None and len(glob.glob("runs/paper/theory/*.json")) < 3:
    time.sleep(0.01)
job.send_signal(signal.SIGINT)
assert "interrupted; the same command goes on" in job.communicate(timeout=900)[1] and job.returncode == 130
P
check "no page of a part" test ! -e runs/paper/theory-pico.html
first=$(ls -tr runs/paper/theory/*.json | head -n 1)
stat -c '%n %y' "$first" >before
exits 0 paper theory --quick --json --csv csv
stat -c '%n %y' "$first" >after
check "what was there is not made again" cmp before after
json_passes <<'P'
import os
slopes = {(s["suite"], s["problem"], s["method"], s["sigma"]): s for s in out["slopes"]}
assert os.path.getsize(out["page"]) > 10000
for p in ("sensing", "phase", "max"):
    assert slopes["rate", p, "Musec", 0]["slope"] < -0.2, slopes["rate", p, "Musec", 0]
assert abs(slopes["polar", "kinks", "Muon, exact, beta 0.5", 0]["slope"]) < 0.2
P
for f in theory-rate-exact theory-rate-noise theory-rank theory-polar theory-clip theory-rate-slopes; do
    check "numbers of $f" test -s "csv/$f.csv"
done
check "the page says how it was made" \
    grep -q 'musec paper theory --scale pico --quick' runs/paper/theory-pico.html
check "every run is inside the bound" \
    test "$(cut -d, -f12,13 csv/theory-rate-slopes.csv | tail -n +2 | tr -d '\r' | sort -u)" = "6,6"

# It computes on the CPU, with as many processes as there are cores, whatever devices are given.
rm "$first"
warns "^theory: 1 setting of 2 seeds to make, $(env -u OMP_NUM_THREADS nproc) at once" \
    paper theory --quick --device cpu
rm "$first"
warns '^theory: 1 setting of 2 seeds to make, 3 at once' \
    paper theory --quick --device cpu,cpu --jobs 3

# A file that is damaged is named.
echo '{"runs": []}' >"$first"
fails 1 'not 2 runs; remove it, and it is made anew' paper theory --quick --no-run
echo '{' >"$first"
fails 1 'remove it, and it is made anew' paper theory --quick --no-run
rm "$first"
warns 'settings are not made yet' paper theory --quick --no-run
finish
