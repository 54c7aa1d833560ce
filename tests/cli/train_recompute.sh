# train_recompute.sh - runs that recompute activations in the backward pass: the bits of those that keep
# them, less memory, a change on resuming, names, and what musec plan makes of it.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way

# Three micro-batches, several targets, windows that grow; every part that the larger models have, and
# every part of the smallest.
model=(train --quiet --steps 6 --layers 4 --width 32 --heads 2 --head 16 --mlp 64 --val-every 3
    --checkpoint-every 3 --keep 0 --long-layers 1,3 --head-gates yes --init-out 0.5 --init-down 0.5)
tiny=("${model[@]}" --val-tokens 512
    --stages "3 batch=384 micro=3 doc=64 window=8/16 mtp=1,0.5; rest window=16/64")
larger=(--x0-mix yes --embed2 yes --smear yes --skips 2:0,3:1 --backout 1 --attn-scales yes
    --key-offset yes --value-tables 0:0,1:1,3:0 --init-values 0.1 --yarn 64 --untie 4)
smallest=(--smear yes --attn-scales yes --key-offset yes --bigram 512 --bigram-width 8 --attn-from 1
    --xsa yes --post-mix yes --value-ve yes --mudd 4 --paired-layers 1 --bare-layers 2
    --value-tables 0:0,3:1 --init-values 0.1 --skips 2:0)

# same WHAT DIR: the run of `kept` and that of DIR: the same log, but for times, and checkpoints.
same() {
    local f step
    check "$1: the log" cmp <(untimed kept) <(untimed "$2")
    for step in 3 6; do
        for f in model optim; do
            check "$1: $f of step $step" cmp "$(checkpoint kept "$step")/$f.safetensors" \
                "$(checkpoint "$2" "$step")/$f.safetensors"
        done
    done
}

# ---- the same bits -----------------------------------------------------------------------------------

for kind in plain larger smallest; do
    case $kind in
        plain) parts=() ;;
        larger) parts=("${larger[@]}") ;;
        *) parts=("${smallest[@]}") ;;
    esac
    rm -rf kept attention mlp layer
    succeeds "${tiny[@]}" ${parts[@]+"${parts[@]}"} --out kept
    for part in attention mlp layer; do
        succeeds "${tiny[@]}" ${parts[@]+"${parts[@]}"} --recompute "$part" --out "$part"
        same "$kind, $part" "$part"
        check "config.json says so" grep -q "\"recompute\": \"$part\"" "$part/config.json"
    done
done
# in 16 bits, which a CPU computes in plain loops: fewer tokens
short=("${model[@]}" "${larger[@]}" --precision bf16 --val-tokens 64
    --stages "3 batch=96 micro=3 doc=32 window=8/16 mtp=1,0.5; rest window=16/32")
rm -rf kept layer
succeeds "${short[@]}" --out kept
succeeds "${short[@]}" --recompute layer --out layer
same "bf16" layer

# ---- resuming ----------------------------------------------------------------------------------------

# changed FROM TO: a run that goes on after three steps recomputing something else.
changed() {
    rm -rf part
    succeeds "${tiny[@]}" "${larger[@]}" --recompute "$1" --out part
    rm -r "$(checkpoint part 6)" part/summary.json
    head -n 3 kept/log.jsonl >part/log.jsonl
    succeeds train --quiet --resume part --recompute "$2"
    same "from $1 to $2" part
    check "config.json says $2" grep -q "\"recompute\": \"$2\"" part/config.json
}
rm -rf kept
succeeds "${tiny[@]}" "${larger[@]}" --out kept
changed none layer
changed layer mlp

# ---- memory and time ---------------------------------------------------------------------------------

# The bytes of activations by --explain are those by musec plan.
given=(plan --preset nano --tokens-per-s 10000 --optim-ms 50 --device cpu --gpus 1 --json)
for part in none attention mlp layer; do
    succeeds train --preset nano --device cpu --recompute "$part" --explain --json
    cp stdout "explained.$part"
    succeeds "${given[@]}" --set recompute="$part"
    cp stdout "planned.$part"
done
check "memory" python3 - <<'P'
import json
# Of each of its 4 layers nano keeps, in float32 and for 8192 tokens: q, k, v, q and k as rotated, and
# the output of attention, of 256 each, a number for each of 4 heads; 1024 of the MLP; and the state
# between, of 256.
attention, mlp = 8192 * 4 * (6 * 256 + 4), 8192 * 4 * 1024
layer = attention + mlp + 8192 * 4 * 256
was = {}
for part in "none", "attention", "mlp", "layer":
    row = json.load(open("explained." + part))["memory_bytes"]
    plan = json.load(open("planned." + part))["rows"][0]
    assert plan["activations_bytes"] == row["activations"], (plan, row)
    was[part] = row
for part, bytes_ in ("attention", attention), ("mlp", mlp), ("layer", layer):
    for name in "activations", "total":
        assert was["none"][name] - was[part][name] == 3 * bytes_, (part, name, was)
P
# By the rates of a chip a pass takes longer by what is computed again: of a layer of wide, 2 (4 + 4) of
# the 24 width^2 operations of its forward pass, those of attention, and nothing of the output head.
chip=(plan --chip h200 --preset wide --gpus 1 --json)
succeeds "${chip[@]}"
cp stdout planned.none
succeeds "${chip[@]}" --set recompute=layer
json_passes <<'P'
was = json.load(open("planned.none"))["rows"][0]
row = out["rows"][0]
assert 1.15 < row["compute_ms"] / was["compute_ms"] < 1.3, (row, was)
assert row["optim_ms"] == was["optim_ms"] and row["activations_bytes"] < was["activations_bytes"] / 2, (row, was)
P

# ---- names -------------------------------------------------------------------------------------------

fails 1 'recompute is "layers"; it must be one of none.attention.mlp.layer' "${tiny[@]}" --set recompute=layers --out no
exits 2 "${tiny[@]}" --recompute 1 --out no
exits 2 "${tiny[@]}" --gradient-checkpointing yes --out no
check "the name of others" grep -q -- '--recompute' stderr
check "no run is left" test ! -e no

# A sweep takes runs as the same ones, whatever they recompute.
succeeds sweep --preset pico --set steps=2 --set batch=256 --set val_tokens=256 --grid recompute=none,layer --dry-run
check "one run" grep -q "^1 run in " stdout

finish
