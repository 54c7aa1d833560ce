# init_from.sh - runs that begin with given weights: which are accepted, and which are refused.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way

model=(--layers 2 --width 32 --heads 2 --head 16 --mlp 64 --batch 256 --max-doc 64 --val-tokens 512
    --head-gates yes --x0-mix yes --gate-width 5)
tiny=(train --quiet "${model[@]}")
field() { # field FILE KEY...: of a JSON file
    python3 -c 'import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2:]: value = value[key]
print(value)' "$@"
}
weights() { echo "$(checkpoint "$1" "$2")/model.safetensors"; }

succeeds "${tiny[@]}" --steps 20 --checkpoint-every 10 --out first
succeeds export first --out first-hf
succeeds export first --dtype bf16 --out first-half

# ---- accepted weights --------------------------------------------------------------------------------

# A learning rate of 0 keeps the weights: the first checkpoint has what the run began with.
still=(--steps 1 --lr 0 --aux-lr 0 --weight-decay 0)
if "$MUSEC" "${tiny[@]}" "${still[@]}" --out drawn >/dev/null 2>stderr; then pass; else
    fail "a run that stays where it is: $(cat stderr)"
fi
check "drawn weights are others" test "$(cmp "$(weights first 20)" "$(weights drawn 1)" | wc -l)" -eq 1
n=0
for from in first first/ "$(weights first 20)" first/checkpoint/step_00000020 first-hf \
    first-hf/model.safetensors; do
    n=$((n + 1))
    succeeds "${tiny[@]}" "${still[@]}" --init-from "$from" --out "same$n"
    check "the weights of $from" cmp "$(weights first 20)" "$(weights "same$n" 1)"
    check "$from: path" test "$(field "same$n/summary.json" init_from path)" = "$from"
    check "$from: step" test "$(field "same$n/summary.json" init_from step)" = 20
done
cp first-hf/model.safetensors alone.safetensors
succeeds "${tiny[@]}" "${still[@]}" --init-from alone.safetensors --out same-alone
check "the weights of a file" cmp "$(weights first 20)" "$(weights same-alone 1)"
check "a file: its sum" test "$(field same-alone/summary.json init_from sha256)" = \
    "$(sha256sum <alone.safetensors | cut -d' ' -f1)"
check "a file has no step" test "$(grep -c '"step"' same-alone/summary.json)" -eq 0
succeeds "${tiny[@]}" "${still[@]}" --init-from first/checkpoint/step_00000010 --out same-older
check "an older checkpoint" cmp "$(weights first 10)" "$(weights same-older 1)"
succeeds "${tiny[@]}" "${still[@]}" --init-from first-half --out same-half
succeeds export same-half --dtype bf16 --out half-again
check "weights of bf16 are what they are" cmp first-half/model.safetensors half-again/model.safetensors
check "config.json names it" test "$(field same-half/config.json init_from)" = first-half
check "and the checkpoint" grep -q '"init_from": {' same-half/checkpoint/step_00000001/state.json
check "drawn weights have no origin" test "$(grep -c init_from drawn/summary.json)" -eq 0

# The first loss is near the last one of the other run, not near that of random weights.
succeeds "${tiny[@]}" --steps 12 --checkpoint-every 6 --init-from first --out second
check "the first loss" python3 -c 'import json
first = [json.loads(line)["loss"] for line in open("first/log.jsonl")]
second = json.loads(open("second/log.jsonl").readline())["loss"]
assert second < (first[0] + first[-1]) / 2, (first[0], first[-1], second)'
# A resumed run does not need the weights and keeps the record of its origin, unless there is no
# checkpoint.
mv first away
rm -r second/checkpoint/step_00000012
cp -r second whole
succeeds train --quiet --resume second
check "it went on" test "$(field second/summary.json status)" = done
check "and keeps its origin" test "$(field second/summary.json init_from path)" = first
rm -r whole/checkpoint whole/summary.json
exits 1 train --quiet --resume whole # without a checkpoint the weights are needed
check "and says so" grep -q '^musec train: first: cannot open' stderr
mv away first
run train --quiet --resume whole
check "it began again: $(cat stderr)" cmp "$(weights second 12)" "$(weights whole 12)"
fails 1 'init-from first, not drawn' train --quiet --resume second --init-from drawn

# Settings that differ without changing a shape are warned of.
exits 0 "${tiny[@]}" "${still[@]}" --init-from first-hf --qk-norm no --rope-base 99 --out others
check "other settings: a warning" test "$(cat stderr)" = "warning: the weights of first-hf were trained with \
other settings: qk-norm yes, here no; rope-base 1024, here 99"
plain=("${tiny[@]}" --head-gates no "${still[@]}")
run "${plain[@]}" --out two-heads
warns 'settings: heads 2, here 4; head 16, here 8$' \
    "${plain[@]}" --heads 4 --head 8 --init-from two-heads --out four-heads
succeeds train "${model[@]}" --init-from first --explain
prints '^  initial weights: first, step 20, sha256 [0-9a-f]{16}$'
succeeds train "${model[@]}" --init-from first --rope-base 99 --explain
prints '^  warning: the weights of first were trained with other settings: rope-base 1024, here 99$'

# ---- refused weights ---------------------------------------------------------------------------------

# The export's tensors, changed: named MISTAKE.safetensors.
python3 - <<'PYTHON'
import json, struct

def read(path):
    raw = open(path, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__")
    return {k: [t["dtype"], t["shape"], raw[8 + n:][slice(*t["data_offsets"])]] for k, t in header.items()}

def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)

def changed(mistake, change):
    tensors = read("first-hf/model.safetensors")
    change(tensors)
    write(mistake + ".safetensors", tensors)

q, down = "model.layers.1.self_attn.q_proj.weight", "model.layers.0.mlp.down_proj.weight"
zeros = lambda *shape: ["F32", list(shape), bytes(4 * __import__("math").prod(shape))]
changed("missing", lambda t: t.pop(q))
changed("extra", lambda t: t.update({"model.layers.0.input_layernorm.weight": zeros(32)}))
changed("both", lambda t: [t.pop(k) for k in list(t) if ".layers.1." in k] + [t.update(a=zeros(1))])
changed("untransposed", lambda t: t[down][1].reverse())
changed("flat", lambda t: t[q].__setitem__(1, [32 * 32]))
changed("doubles", lambda t: t[q].__setitem__(slice(0, 3), ["F64", [32, 32], bytes(8 * 32 * 32)]))
changed("ids", lambda t: t[q].__setitem__(0, "I32"))
for mistake, bits in ("nan", b"\0\0\xc0\x7f"), ("inf", b"\0\0\x80\xff"):
    changed(mistake, lambda t: t[down].__setitem__(2, t[down][2][:40] + bits + t[down][2][44:]))
changed("f16", lambda t: [t.update({k: ["F16", v[1], b"\0\x3c" * (len(v[2]) // 4)]}) for k, v in t.items()])
gpt2 = {"wte.weight": zeros(257, 32), "wpe.weight": zeros(64, 32), "h.0.ln_1.weight": zeros(32),
        "h.0.attn.c_attn.weight": zeros(32, 96), "h.0.attn.c_attn.bias": zeros(96)}
write("gpt2.safetensors", gpt2)
write("prefixed.safetensors", {"transformer." + k: v for k, v in gpt2.items()})
write("nothing.safetensors", {})
PYTHON
succeeds "${tiny[@]}" "${still[@]}" --init-from f16.safetensors --out ones
refused() { # refused PATTERN PATH: and no run is begun
    fails 1 "$1" "${tiny[@]}" "${still[@]}" --init-from "$2" --out refused
    check "$2: no run" test ! -e refused
}
not='not the weights of this model: '
refused "missing.safetensors: ${not}it lacks model.layers.1.self_attn.q_proj.weight; give" missing.safetensors
refused "${not}the model has no model.layers.0.input_layernorm.weight; give" extra.safetensors
refused "${not}it lacks model.layers.1.mix, .* and 5 more, and the model has no a; give" both.safetensors
refused "${not}it lacks embed, layer.0.mix, layer.0.attn.q and 15 more; give" nothing.safetensors
refused 'down_proj.weight is 64 x 32, but the model.s is 32 x 64' untransposed.safetensors
refused 'q_proj.weight has 1 dimensions; the model.s is a matrix, 32 x 32' flat.safetensors
refused 'q_proj.weight is of type F64; init-from takes F32, BF16 and F16' doubles.safetensors
refused 'q_proj.weight is of type I32; init-from takes F32, BF16 and F16' ids.safetensors
refused 'element 10 of model.layers.0.mlp.down_proj.weight is not finite' nan.safetensors
refused 'element 10 of model.layers.0.mlp.down_proj.weight is not finite' inf.safetensors
for file in gpt2 prefixed; do
    refused "$file.safetensors: these are GPT-2's weights, which this GPT cannot take: GPT-2 has learned \
positions \(wpe\), LayerNorm .* GELU and biases .*; this one has RoPE, RMSNorm without gains, squared ReLU" \
        $file.safetensors
done
mkdir hub empty
cp gpt2.safetensors hub/model.safetensors
echo '{"model_type": "gpt2", "n_embd": 32}' >hub/config.json
refused "hub/model.safetensors: these are GPT-2's weights" hub
refused 'empty: there are no weights in it; init-from needs a run directory, a checkpoint, an export' empty
refused 'nowhere: cannot open' nowhere
refused 'first/log.jsonl: ' first/log.jsonl
mkdir bare
cp first/config.json bare
refused 'bare: there are no weights in it' bare
fails 1 'it lacks layer.2.mix, layer.2.attn.q, layer.2.attn.k and 5 more' \
    "${tiny[@]}" --layers 3 --init-from first --out refused
fails 1 'the model has no layer.1.mix, layer.1.attn.q' "${tiny[@]}" --layers 1 --init-from first --out refused
fails 1 'is 320 x 32, but the model.s is 320 x 48' "${tiny[@]}" --width 48 --init-from first --out refused
fails 1 'is 320 x 32, but the model.s is 320 x 48' train "${model[@]}" --width 48 --init-from first --explain
cp -r first damaged
printf x | dd of=damaged/checkpoint/step_00000020/model.safetensors bs=1 seek=3000 conv=notrunc 2>/dev/null
refused 'model.safetensors: damaged' damaged/checkpoint/step_00000020
warns '^warning: 1 damaged, going back' "${tiny[@]}" "${still[@]}" --init-from damaged --out went-back
finish
