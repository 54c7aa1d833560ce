# bench.sh - musec bench step and accuracy on the matrices of a run, and wrong usage.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way

tiny=(train --quiet "${small_model[@]}" --batch 256 --val-tokens 512 --steps 4)
succeeds "${tiny[@]}" --optimizer soft-musec --threshold 0.03 --out a
sums a

succeeds bench step --quick --repeats 1 --run a
prints 'a run of soft-musec had at step 4; threshold 0.03, beta 0.05'
prints '^  muon +6 matrices, step 4 .* x muon' '^  soft-musec accurate +6 matrices, step 4 '
prints '^plans of soft-musec accurate'
check "every matrix has a plan" test \
    "$(sed -n '/^plans/,$p' stdout | awk 'NR > 1 {n += $NF} END {print n}')" -eq 6
untouched a "bench step"

# Errors against float64: of every path, within its bound; on ref with operands of 16 bits too.
succeeds bench accuracy --run a
for path in 'paper K=5' paper7 fast accurate {sharp,hard}-{fast,accurate} muon; do
    prints "^  $path +f32 +[0-9.]+e-[0-9]+ of +[0-9.]+e-[0-9]+ "
done
prints 'threshold 0.03: 6 of 6 matrices'
succeeds "${tiny[@]}" --layers 5 --optimizer muon --momentum-form heavy-ball --out heavy
succeeds bench accuracy --run heavy --device ref --filter f16
prints '18 of 30 matrices' '^  fast +f16 .* p9x9'
succeeds bench accuracy --run heavy --device ref --filter 'muon bf16' --all
prints '30 of 30 matrices'
succeeds bench accuracy --run a --device ref --json
json_passes <<'P'
assert len(out["rows"]) == 27, len(out["rows"])
for row in out["rows"]:
    assert 0 <= row["error"] <= row["bound"] and row["theorem"] <= 1 and not row["broken"], row
P

# wrong usage
fails 2 '--filter nothing: ops has no row whose name holds that' bench ops --quick --repeats 1 \
    --filter nothing
fails 2 '--filter nothing: step has' bench step --quick --repeats 1 --run a --filter nothing --json
fails 2 '--filter nothing: accuracy has' bench accuracy --run a --filter nothing
succeeds bench step --quick --repeats 1 --run a --filter muon
prints '^  muon '
fails 2 'ops has no use for --run' bench ops --run a
fails 2 'ops has no use for --preset' bench ops --preset small
fails 2 'train has no use for --run' bench train --run a
fails 2 'tokenize has no use for --filter' bench tokenize --filter x
fails 2 'step has no use for --text' bench step --text x
fails 2 '--run and --preset both say' bench step --run a --preset small

fails 2 'ops has no use for --ask' bench ops --ask
fails 2 '--ask prints numbers alone; leave --json out' bench train --ask --json

# a training step: only the rows that are asked for are timed
printf '%s\n' forward 'forward + backward' >rows
succeeds bench train --preset pico --ask <rows
check "a time for each row" test "$(grep -cE '^[0-9]+\.[0-9]{3}$' stdout)" -eq 2
echo backward >rows
run bench train --preset pico --ask <rows # it has said what it computes on
check "an unknown row is an error" test "$code" -eq 1
check "which is named" grep -q '^musec bench: standard input: there is no row "backward"; ' stderr
succeeds bench train --preset pico --repeats 1 --filter 'forward +'
prints '^  forward \+ backward +pico'

mkdir empty
fails 1 'empty: is no run: ' bench accuracy --run empty
fails 1 'empty: is no run: ' bench step --quick --run empty
fails 1 'nowhere: there is no such directory; the runs nearby are ' bench step --quick --run nowhere
succeeds "${tiny[@]}" --optimizer adamw --out adamw
fails 1 'adamw, keeps no momentum' bench step --quick --run adamw
cp -r a torn
newest=$(ls -d torn/checkpoint/step_*)
printf x | dd of="$newest/optim.safetensors" bs=1 seek=900 conv=notrunc status=none
fails 1 'optim.safetensors' bench step --quick --run torn
check "a damaged checkpoint is not moved" test -d "$newest"
finish
