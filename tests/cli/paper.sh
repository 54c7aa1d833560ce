# paper.sh - a figure of the paper from its runs to its page: also when killed in the middle and resumed;
# the list of items, and wrong usage.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

tiny=(--set layers=1 --set width=32 --set heads=1 --set head=32 --set mlp=64 --set steps=6
    --set val_every=2 --set val_tokens=512 --set report_every=2)

# The runs, before there are any.
succeeds paper threshold --dry-run --json
json_passes <<<'assert len(out["runs"] if isinstance(out, dict) else out) == 9'
succeeds paper fig12 --dry-run --full
prints '^18 runs in .*: 18 waiting'
succeeds paper fig11 --full --dry-run --data builtin --data builtin:2 --data builtin:3 --seeds 2,1
prints '^72 runs in .*: 72 waiting' # 18 settings: two seeds, and one on each of the other sets
succeeds paper list --dry-run
prints '^Times are not known'
check "nothing was written" test ! -e runs
succeeds paper table1 --dry-run
prints 'needs no runs'

# Uninterrupted.
mkdir whole broken
(cd whole && "$MUSEC" paper threshold "${tiny[@]}" --omit-times --csv csv >../stdout 2>../stderr)
code=$?
check "threshold: $(tail -n 1 stderr)" test "$code" -eq 0
check "the path of the page is printed" grep -qx 'runs/paper/threshold-pico.html' stdout
check "the page is there" test -s whole/runs/paper/threshold-pico.html
check "its numbers too" test -n "$(ls whole/csv)"
check "it says that QK-norm is off" grep -q 'without QK-norm' whole/runs/paper/threshold-pico.html
check "and that --set comes before it" \
    grep -q 'What --set says stands in place' whole/runs/paper/threshold-pico.html
check "it says how it was made" \
    grep -q 'musec paper threshold --scale pico --set layers=1' whole/runs/paper/threshold-pico.html
check "nine runs" test "$(ls -d whole/runs/paper/runs/*/ | wc -l)" -eq 9

# Killed when some runs are finished: what is there stays, and the page is the same.
python3 - "$MUSEC" "${tiny[@]}" <<'P' && pass || fail "kill -9"
import glob, os, signal, subprocess, sys, time

def children(pid):
    return open(f"/proc/{pid}/task/{pid}/children").read().split()

def alive(pid):
    try: return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError: return False

job = subprocess.Popen([sys.argv[1], "paper", "threshold", *sys.argv[2:], "--jobs", "1"],
                       cwd="broken", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while job.poll() is None and len(glob.glob("broken/runs/paper/runs/*/summary.json")) < 3:
    time.sleep(0.01)
job.send_signal(signal.SIGSTOP)
runs = children(job.pid)
job.send_signal(signal.SIGKILL)
job.wait(900)
while any(map(alive, runs)):  # the run that lost its parent ends by itself
    time.sleep(0.01)
assert 3 <= len(glob.glob("broken/runs/paper/runs/*/summary.json")) < 9
P
check "no page of a part" test ! -e broken/runs/paper/threshold-pico.html
finished=$(grep -l '"done"' broken/runs/paper/runs/*/summary.json)
# shellcheck disable=SC2086  # names without blanks
stat -c '%n %y %z' $finished >before
(cd broken && "$MUSEC" paper threshold "${tiny[@]}" --omit-times >../stdout 2>../stderr)
code=$?
check "it goes on: $(tail -n 1 stderr)" test "$code" -eq 0
# shellcheck disable=SC2086
stat -c '%n %y %z' $finished >after
check "finished runs are not made again" cmp before after
check "the page is the same" \
    cmp whole/runs/paper/threshold-pico.html broken/runs/paper/threshold-pico.html

# A run whose files do not fit together is named.
first=$(echo broken/runs/paper/runs/pico-soft-musec-lr0.1-*)
first=${first%% *}
rm "$first/log.jsonl"
(cd broken && "$MUSEC" paper threshold "${tiny[@]}" >../stdout 2>../stderr) && fail "without a log" || pass
check "what to do: $(cat stderr)" \
    grep -q "remove ${first#broken/}, and the run is made anew" stderr

# Other items use the runs that are there.
cd whole || exit 1
run paper weight-norm "${tiny[@]}" --dry-run
prints '3 done, 17 waiting|17 waiting, 3 done'
warns 'of 364 runs are not made yet' paper verdict "${tiny[@]}" --no-run --json
json_passes <<'P'
import os
assert len(out["claims"]) > 10 and {c["verdict"] for c in out["claims"]} <= {
    "holds", "does not hold", "not tested here", "not decided by these runs"}
assert os.path.getsize(out["page"]) > 1000 and open(out["markdown"]).read().startswith("|")
P
fails 1 'none of the 18 runs|none of the 9 runs' paper ns-iters --no-run --out elsewhere
run paper verdict "${tiny[@]}" --no-run
check "verdicts are counted: $(tail -n 2 stdout)" grep -Eq '^35 claims: [0-9]+ holds?, [0-9]+ do(es)? not hold, [0-9]+ not decided, [0-9]+ not tested$' stdout
counts=$(sed -nE 's/^35 claims: ([0-9]+ holds?), ([0-9]+ do(es)? not hold), ([0-9]+ not decided), ([0-9]+ not tested)$/\1|\2|\4|\5/p' stdout)
page=$(tr -d '\n' <runs/paper/verdict-pico.html | grep -o '<ul class="counts">.*</ul><p class="lead">' |
    sed -E 's/<[^>]*>/|/g; s/^\|+//; s/\|+$//; s/\|+/|/g')
check "on the page first, the same: $page" test "$page" = "$counts"
check "each with its word and colour" grep -q '<span class="badge b-not-tested-here">not tested here</span>' \
    runs/paper/verdict-pico.html
exits 0 paper threshold "${tiny[@]}" --no-run --only lr=0.1 --list threshold=0.05,0.25
check "the page says of which part it is" grep -q 'Made by: .* --only lr=0.1 --list threshold=0.05,0.25' \
    runs/paper/threshold-pico.html
exits 0 paper table2
prints '^runs/paper/training-pico.html$'
check "it has the paper's figures" grep -q '1049K' runs/paper/training-pico.html

# The list has times by a calibration that is made once.
warns '^calibrating at pico' paper list "${tiny[@]}" --json
json_passes <<'P'
items = {i["item"]: i for i in out["items"]}
assert items["threshold"]["finished"] == 9 and items["threshold"]["to_go_s"] == 0
assert items["lr-sweep"]["runs"] == 358 and items["lr-sweep"]["finished"] == 9
assert 0 < items["ns-iters"]["to_go_s"] < items["lr-sweep"]["to_go_s"] < items["verdict"]["full_to_go_s"]
assert items["architecture"]["runs"] == 0 and "fig11" in items["threshold"]["aliases"]
P
succeeds paper list "${tiny[@]}"
prints '^threshold +Figure 11 +9 +9 +0 s +18' '^Data: the built-in corpus'
succeeds paper list --scale medium --no-run
prints '^threshold +Figure 11 +9 +0 +- +18 +- +GPT-2 tokens$'
echo '{"format": 1' >runs/paper/calibration.json
succeeds paper list "${tiny[@]}" --no-run # a damaged calibration is ignored
prints '^threshold +Figure 11 +9 +9 +0 s +18 +-'
cd .. || exit 1

# Wrong usage: one line, before anything is made.
rm -rf runs
fails 1 'no item "treshold"; did you mean "threshold"' paper treshold
fails 1 'no item "frobnicate".*musec paper list' paper frobnicate
fails 1 'no scale "piko"; there are pico, nano' paper threshold --scale piko
fails 1 'there is no list "treshold"; there are lr, ' paper threshold --list treshold=1
fails 1 'there is no field "colour"' paper threshold --only colour=red
fails 1 'leaves none of the runs of threshold' paper threshold --only lr=7 --dry-run
fails 1 "only wants NAME=VALUE,VALUE,..., not 'lr'" paper threshold --only lr
fails 1 'leaves none of the runs of threshold' paper threshold --only lr=nan --dry-run
fails 1 'only names lr twice' paper lr-sweep --only lr=0.1 --only lr=0.2 --dry-run
fails 1 'lr is "inf"' paper lr-sweep --list lr=inf --dry-run
fails 1 'width is the same in all runs of lr-sweep' paper lr-sweep --only width=7 --dry-run
succeeds paper threshold --seeds 3 --only seed=2 --dry-run
check "one of three seeds" test "$(grep -c -- '-s2-' stdout) $(grep -c -- '-s[01]-' stdout)" = '9 0'
succeeds paper list --only optimizer=muon --no-run
prints '^threshold .*Figure 11 +0 +0 '
succeeds paper lr-sweep --only optimizer=muon --only lr=0.1,0.2 --list weight_decay=0,0.3,2 --dry-run
prints '^8 runs in '
fails 1 'did you mean "steps"' paper threshold --set stepz=3
fails 1 'the stages say what batch is' paper threshold --set batch=512
fails 2 '--seeds and --set seed=1 give the same field' paper threshold --seeds 2 --set seed=1
fails 2 '--data and --set data=b.txt give the same field' paper threshold --data a.txt --set data=b.txt
fails 1 'seeds is "0"' paper threshold --seeds 0
fails 1 'seeds is "2,-1"' paper threshold --seeds 2,-1
fails 2 "seeds wants numbers such as 2,1,1, not '2,x'" paper threshold --seeds 2,x
fails 2 'seeds wants numbers' paper threshold --seeds 2,
fails 1 'jobs must be' paper threshold --jobs -1
fails 1 'no device "gpu"' paper threshold --device gpu
fails 1 'no-such-dir' paper threshold --data no-such-dir
fails 1 'needs data' paper threshold --scale small
fails 2 'ITEM' paper
fails 2 'set wants FIELD=VALUE' paper threshold --set steps
fails 1 'within is 2; it must be a share from 0 to 1' paper threshold --within 2
check "nothing was written" test ! -e runs
finish
