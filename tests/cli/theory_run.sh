# theory_run.sh - musec theory run: what is printed and measured, every optimizer, what is refused.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

export OMP_NUM_THREADS=1
succeeds theory run --help
prints '^Usage: musec theory run .*PROBLEM'
succeeds theory run list
problems='sensing phase completion relu max kinks quadratic'
for p in $problems; do prints "^$p +[a-z]"; done
for p in $problems; do
    succeeds theory run "$p" --steps 300 --samples 16
    prints "^$p, [0-9]+ x [0-9]+: L "
done
for o in musec soft-musec muon muonclip spectra sgdm adam adamw signum ademamix; do
    succeeds theory run max --optimizer "$o" --steps 300 --samples 0
    prints "^$o: lr "
done

# What the theorem covers: Musec as the Corollary has it, with enough steps; nothing else.
succeeds theory run max --steps 2000
prints ' yes$'
succeeds theory run max --steps 200
prints ' no$'
succeeds theory run max --steps 2000 --beta 0.5
prints ' no$'
succeeds theory run relu --steps 2000
prints ' no$'
prints 'not weakly convex: the theorem says nothing'
succeeds theory run max --steps 2000 --optimizer soft-musec
prints ' no$'

# The numbers as JSON: inside the bound, in the ball, one norm for every epoch.
succeeds theory run phase --steps 3000 --sigma 0.5 --seed 3 --seeds 2 --json
python3 - <<'P' && pass || fail "--json: $(head -c 300 stdout)"
import json
d = json.load(open("stdout"))
assert d["problem"] == "phase" and [r["seed"] for r in d["runs"]] == [3, 4]
for r in d["runs"]:
    assert r["covered"] and 0 < r["hbar_mean"] <= r["bound"], r
    assert r["hull_lower"] <= r["hull_upper"] < r["problem"]["lipschitz"] and r["spread"] <= 0.1
    k = r["chosen"]["K"]
    assert len(r["hbar"]) == k and 0 <= r["picked"] < k and r["steps"] == k * r["chosen"]["T"]
    assert abs(sum(r["hbar"]) / k - r["hbar_mean"]) < 1e-12 and r["f_end"] < r["f_start"]
P
# The same run alone, into a file, is the same to the last bit.
python3 -c 'import json; d = json.load(open("stdout"))["runs"][1]; d.pop("seconds"); print(d)' >both
succeeds theory run phase --steps 3000 --sigma 0.5 --seed 4 --out alone.json
check "nothing on stdout" test ! -s stdout
python3 -c 'import json; d = json.load(open("alone.json"))["runs"][0]; d.pop("seconds"); print(d)' >alone
check "the same run" cmp both alone

# The exact polar step stays where it is, Musec does not.
succeeds theory run kinks --optimizer muon --set ns-mode=exact --beta 0.5 --steps 8000 --json
python3 - <<'P' && pass || fail "the polar step: $(head -c 300 stdout)"
import json
r = json.load(open("stdout"))["runs"][0]
assert r["f_end"] >= 0.1 and 0.1 - 1e-9 <= r["hbar_mean"] <= 0.11 and abs(r["hull_upper"] - 0.1) < 1e-8
P

# A run that diverges is a result.
succeeds theory run quadratic --optimizer sgdm --lr 1e9 --beta 1 --steps 500
prints 'diverged'

fails 1 'no problem "phases"; there are sensing, phase' theory run phases
fails 1 'no optimizer "musik"; there are musec, soft-musec' theory run max --optimizer musik
fails 1 'ns-mod' theory run max --set ns-mod=exact
fails 1 'ns-mode' theory run max --set ns-mode=exactly
fails 1 'more steps or a smaller --delta' theory run max --steps 1 --delta 1000
fails 1 '--cols is 1; kinks takes 2 to' theory run kinks --rank 1
fails 1 'no-such-dir' theory run max --steps 100 --samples 0 --out no-such-dir/a.json
fails 2 'wants PROBLEM|PROBLEM' theory run
fails 2 '--steps must be 1' theory run max --steps 0
fails 2 '--delta must be above 0' theory run max --delta 0
fails 2 '--sigma must be 0 or more' theory run max --sigma -1
fails 2 '--seeds must be' theory run max --seeds 0
fails 2 '--samples must be' theory run max --samples -1
fails 2 '--beta must be' theory run max --beta 2
fails 2 '--set wants OPTION=VALUE' theory run max --set exact
check "nothing came of all that" test "$(ls ./*.json)" = ./alone.json
finish
