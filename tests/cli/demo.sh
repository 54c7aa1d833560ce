# demo.sh - the sweep that needs no data: its table and page, resuming, interruptions, wrong usage.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

warns '12 of 12 runs' demo --steps 2 --out 'a b/demo'
prints '^validation loss +lr 0.02 +lr 0.1 +lr 0.5 +lost'
for name in 'Soft Musec' SPECTRA MuonClip Muon; do
    prints "^$name +[0-9.]+ +[0-9.]+ +[0-9.]+ +[+-][0-9.]+ +[0-9.]+"
done

# and the plots
prints '^The plots: a b/demo/report.html$'
check "a page" grep -q 'data-label="Soft Musec"' 'a b/demo/report.html'
# the page begins with the result as a sentence and as the same table
prints '^At lr 0.5, .* ends [0-9.-]+ above its own best validation loss'
headline=$(grep '^At lr 0.5, ' stdout)
check "the same sentence on the page" grep -qF "<p class=\"headline\">$headline</p>" 'a b/demo/report.html'
row=$(awk '$1 == "MuonClip" { print $2; exit }' stdout)
check "the same numbers" grep -q "<td>MuonClip</td><td class=\"r\">$row</td>" 'a b/demo/report.html'
check "where it was made" grep -Eq '^<p>12 runs made on 20[0-9-]{8} by musec [0-9.]+: .*[0-9]+ cores?\.</p>$' \
    'a b/demo/report.html'

# finished runs are not repeated
one=$(echo 'a b/demo/pico-muon-lr0.5-s0-'*)
touch -d '2001-01-01' "$one/log.jsonl"
succeeds demo --steps 2 --out 'a b/demo' --json
json_passes <<'P'
assert len(out) == 12 and all(r["status"] == "done" for r in out)
assert all(r["val_loss"] > 0 and r["w_norm"] > 0 and r["u_norm"] > 0 for r in out)
P
[ "$(date -r "$one/log.jsonl" +%Y)" = 2001 ] && pass || fail "a run was repeated"
check "checkpoints stay, to draw samples from" test -d "$one/checkpoint/step_00000002"

# other settings are other runs
exits 0 demo --steps 1 --seed 18446744073709551615 --out 'a b/demo'
check "the first ones are still there" test -d "$one"
check "24 runs" test "$(find 'a b/demo' -name summary.json | wc -l)" -eq 24
fails 1 'steps must be at least 1' demo --steps 0
fails 1 '--jobs from 0' demo --jobs 1000
fails 1 'too long' demo --out "$(printf "x%.0s" $(seq 4090))"
fails 1 'cannot|Not a directory|No such|directory' demo --out /dev/null/x

# Ctrl-C goes to the whole process group; every run that had begun has a checkpoint
python3 - "$MUSEC" <<'P' && pass || fail "after Ctrl-C"
import glob, os, signal, subprocess, sys, time
job = subprocess.Popen([sys.argv[1], "demo", "--steps", "100000", "--jobs", "2", "--out", "stopped"],
                       start_new_session=True, stderr=open("stopped.err", "w"))
def begun():
    return sum(os.path.getsize(f) > 0 for f in glob.glob("stopped/*/log.jsonl"))
while job.poll() is None and begun() < 2:
    time.sleep(0.05)
os.killpg(job.pid, signal.SIGINT)
assert job.wait(900) == 130, job.returncode
states = [open(f).read() for f in glob.glob("stopped/*/summary.json")]
assert len(states) == 2 and all('"interrupted"' in s for s in states), states
assert len(glob.glob("stopped/*/checkpoint/step_*")) == 2
P
grep -q 'interrupted; the same command goes on' stopped.err && pass || fail "$(cat stopped.err)"

# SIGCHLD may be ignored
python3 - "$MUSEC" <<'P' && pass || fail "with SIGCHLD ignored"
import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
job = subprocess.Popen([sys.argv[1], "demo", "--steps", "2", "--out", "a b/demo"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
job.wait(900)
P
finish
