# train_parts.sh - the parts of the paper's full models in runs: resuming bit for bit, a head and an
# embedding that are one until they part, sampling, and what cannot be exported.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way

# The window grows after three steps, and YaRN with it; the embedding parts from the head after five.
tiny=(train --quiet --steps 8 --layers 4 --width 32 --heads 2 --head 16 --mlp 64 --batch 256
    --val-tokens 512 --val-every 3 --checkpoint-every 1 --keep 0 --long-layers 1,3 --x0-mix yes
    --head-gates yes --set "stages=3 doc=64 window=8/16; rest doc=64 window=16/64")
parts=(--embed2 yes --smear yes --skips 2:0,3:1 --backout 1 --attn-scales yes --key-offset yes
    --value-tables 0:0,1:1,3:0 --init-values 0.1 --yarn 64 --lr-tables 5 --lr-scalars 2 --spare 3)

succeeds "${tiny[@]}" "${parts[@]}" --untie 5 --out whole
succeeds train --explain --config whole/config.json
prints '^  parts: second embedding, smear, skips 2:0,3:1, backout of layer 1, scales of attention, '

# ---- resuming ----------------------------------------------------------------------------------------

untimed whole >whole.log
for step in 2 4 5 6; do
    rm -rf part
    cp -r whole part
    for later in $(seq $((step + 1)) 8); do rm -r "$(checkpoint part "$later")"; done
    rm part/summary.json
    head -n "$step" whole/log.jsonl >part/log.jsonl
    succeeds train --quiet --resume part
    check "resumed after step $step: the log" cmp whole.log <(untimed part)
    for f in model.safetensors optim.safetensors state.json; do
        check "resumed after step $step: the same $f" \
            cmp "$(checkpoint whole 8)/$f" "$(checkpoint part 8)/$f"
    done
done

# ---- tied, then apart --------------------------------------------------------------------------------

# losses DIR N: of the first N steps.
losses() { head -n "$2" "$1/log.jsonl" | sed -E 's/.*"loss": ([0-9.e+-]+),.*/\1/'; }
succeeds "${tiny[@]}" "${parts[@]}" --tied yes --out tied
check "losses" test "$(losses tied 8 | sort -u | wc -l)" -eq 8
check "until they part it is the tied model" cmp <(losses tied 6) <(losses whole 6)
check "and then another one" test "$(cmp <(losses tied 8) <(losses whole 8) | wc -l)" -eq 1

# Id 300 is padding and in no text: its rows of the embedding have no gradient of their own, so in
# the first step apart their moments are those of the head before, times beta.
cat >apart.py <<'PYTHON'
import json, struct, sys

def row(step, file, name, index):
    data = open("whole/checkpoint/step_%08d/%s" % (step, file), "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    t = json.loads(data[8:8 + size])[name]
    assert t["dtype"] == "F32", t
    cols = t["shape"][-1]
    at = 8 + size + t["data_offsets"][0] + 4 * cols * index
    return struct.unpack("<%df" % cols, data[at:at + 4 * cols])

for step in range(1, 6):
    assert row(step, "model.safetensors", "embed", 300) == row(step, "model.safetensors", "head", 300)
assert row(8, "model.safetensors", "embed", 65) != row(8, "model.safetensors", "head", 65)
for state, beta in (("m", 0.8), ("v", 0.95)):
    head = row(5, "optim.safetensors", "head/0/" + state, 300)
    embed = row(6, "optim.safetensors", "embed/0/" + state, 300)
    assert max(map(abs, head)) > 0.0
    for h, e in zip(head, embed):
        assert abs(e - beta * h) <= 1e-6 * abs(h) + 1e-30, (state, h, e)
PYTHON
check "the embedding goes on with the head's weights and moments" python3 apart.py

# ---- samples and exports -----------------------------------------------------------------------------

for step in 2 4 8; do # before the window grew, after that, and apart
    succeeds sample "$(checkpoint whole "$step")" --tokens 20 --prompt 'The ' --temperature 0
    check "a sample of step $step" test "$(wc -c <stdout)" -gt 4
done
fails 1 'the file of an exported model has no second embedding' export whole --to hf --out whole-hf
check "nothing is exported" test ! -e whole-hf

# ---- wrong usage -------------------------------------------------------------------------------------

fails 1 'untie is 3, but tied is yes' "${tiny[@]}" --tied yes --untie 3 --out no
fails 1 'an earlier one' "${tiny[@]}" --skips 1:1 --out no
fails 1 'twice' "${tiny[@]}" --value-tables 1:1,1:0 --out no
check "no run is left" test ! -e no

finish
