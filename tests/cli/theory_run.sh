# theory_run.sh - musec theory run: what it prints and measures, with every optimizer; wrong usage.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

export OMP_NUM_THREADS=1
succeeds theory run --help
prints '^Usage: musec theory run .*PROBLEM'
succeeds theory run list
problems='sensing phase completion relu max kinks quadratic'
for p in $problems; do prints "^$p +[a-z]"; done
succeeds theory run list --json
check "as JSON as well" test "$(json 0 name)" = sensing
for p in $problems; do
    succeeds theory run "$p" --steps 300 --samples 16
    prints "^$p, [0-9]+ x [0-9]+: L "
done
check "there are optimizers" test "$(optimizers | wc -l)" -ge 10
for o in $(optimizers); do
    succeeds theory run max --optimizer "$o" --steps 300 --samples 0
    prints "^$o: lr "
done

# The theorem covers Musec with the Corollary's parameters and enough steps, and nothing else.
succeeds theory run max --steps 2000
prints ' yes$'
succeeds theory run max --steps 200
prints ' no$'
succeeds theory run max --steps 2000 --beta 0.5
prints ' no$'
succeeds theory run relu --steps 2000
prints ' no$' 'not weakly convex: the theorem says nothing'
succeeds theory run max --steps 2000 --optimizer soft-musec
prints ' no$'
for other in weight-decay=1 momentum-init=zero update-scale=unit shape-rule=keller \
    beta=0.1 threshold=1 ns-mode=fast nesterov=yes; do
    succeeds theory run max --steps 2000 --samples 0 --set "$other"
    prints ' no$'
done
for other in --lr --threshold; do
    succeeds theory run max --steps 2000 --samples 0 $other 0.01
    prints ' no$'
done

# The numbers as JSON are within their bounds, with one norm for every epoch.
succeeds theory run phase --steps 3000 --sigma 0.5 --seed 3 --seeds 2 --json
json_passes <<'P'
assert out["problem"] == "phase" and [r["seed"] for r in out["runs"]] == [3, 4]
for r in out["runs"]:
    assert r["covered"] and 0 < r["hbar_mean"] <= r["bound"], r
    assert r["hull_lower"] <= r["hull_upper"] < r["problem"]["lipschitz"] and r["spread"] <= 0.1
    k = r["chosen"]["K"]
    assert len(r["hbar"]) == k and 0 <= r["picked"] < k and r["steps"] == k * r["chosen"]["T"]
    assert abs(sum(r["hbar"]) / k - r["hbar_mean"]) < 1e-12 and r["f_end"] < r["f_start"]
P
# The second run alone, written to a file, has the same bits.
python3 -c 'import json; d = json.load(open("stdout"))["runs"][1]; d.pop("seconds"); print(d)' >both
succeeds theory run phase --steps 3000 --sigma 0.5 --seed 4 --out alone.json
check "nothing on stdout" test ! -s stdout
python3 -c 'import json; d = json.load(open("alone.json"))["runs"][0]; d.pop("seconds"); print(d)' >alone
check "the same run" cmp both alone

# The exact polar step does not converge, Musec does.
succeeds theory run kinks --optimizer muon --set ns-mode=exact --beta 0.5 --steps 8000 --json
json_passes <<'P'
r = out["runs"][0]
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
fails 1 '--rank is 1; kinks takes 2 to 2048, or 0' theory run kinks --rank 1
fails 1 '--rank is -1; max takes 1 to 2048' theory run max --rank -1
fails 1 '--rank is 9223372036854775807; max takes 1 to 2048' theory run max --rank 9223372036854775807
succeeds theory run max --steps 100 --samples 0 --rank 0
prints '^max, 16 x 8: '
# The place of the output is checked first.
fails 1 'no-such-dir/ is no directory' theory run max --optimizer musik --out no-such-dir/a.json
fails 1 '--out \.: a directory is there' theory run max --optimizer musik --out .
fails 2 'wants PROBLEM|PROBLEM' theory run
fails 1 '--steps must be 1' theory run max --steps 0
fails 1 '--delta must be above 0' theory run max --delta 0
fails 1 '--sigma must be 0 or more' theory run max --sigma -1
fails 1 '--seeds must be' theory run max --seeds 0
fails 1 '--samples must be' theory run max --samples -1
fails 1 '--beta must be' theory run max --beta 2
fails 1 '--lr must be' theory run max --lr -1
fails 1 '--threshold must be' theory run max --threshold 0
fails 1 '--set avg-epochs: the Corollary gives the epochs' theory run max --set avg-epochs=1
fails 1 '--set avg-steps: the Corollary gives the epochs' theory run max --set avg-steps=1
fails 1 '--set seed: it is --seed' theory run max --set seed=3
# Seeds must be integers that JSON libraries hold, so below 2^63.
fails 1 '--seed and --seeds together must be less than 2\^63' theory run max --seed 9223372036854775807
fails 1 '--seed and --seeds together' theory run max --seed 18446744073709551615
fails 1 '--seed and --seeds together' theory run max --seed 9223372036854775805 --seeds 3
succeeds theory run max --steps 100 --samples 0 --seed 9223372036854775806 --json
prints '"seed": 9223372036854775806'
fails 2 '--set wants OPTION=VALUE' theory run max --set exact
check "nothing was written" test "$(ls ./*.json)" = ./alone.json
finish
