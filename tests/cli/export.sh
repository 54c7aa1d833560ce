# export.sh - runs as directories for Hugging Face's transformers: the files, their contents, and the
# logits computed from them, by a forward pass in NumPy from config.json and model.safetensors alone,
# and by transformers itself where it is installed (MUSEC_HF_PYTHON names a Python that has it).
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way
export HOME=$PWD/nowhere

tiny=(train --quiet --width 48 --heads 2 --head 16 --mlp 64 --batch 256 --max-doc 64 --val-tokens 512
    --init-out 0.5 --init-down 0.5) # so that no path is switched off
succeeds "${tiny[@]}" --layers 3 --window-short 5 --window-long 20 --long-layers 1 --steps 20 \
    --checkpoint-every 10 --out plain
succeeds "${tiny[@]}" --layers 2 --qk-norm no --tied yes --head-gates yes --gate-width 7 --x0-mix yes \
    --cap tanh --cap-scale 9 --attn-scale 0.3 --attn-softcap 4 --rope-share 1 --rope-pairs adjacent \
    --rope-base 500 --norm-eps 1e-3 --window-short 9 --window-long 30 --long-layers 0 --init-residual 1.1 \
    --steps 20 --stages '10 window=2/3; rest window=9/30' --checkpoint-every 5 --keep 0 --out full
succeeds "${tiny[@]}" --layers 1 --cap none --vocab 257 --steps 2 --out bare

# ---- the files ---------------------------------------------------------------------------------------

succeeds export plain
prints '^plain-hf: step 20, [0-9]+ parameters in 20 tensors of f32$'
check "the files" test "$(ls plain-hf | tr '\n' ' ')" = "README.md config.json configuration_musec.py \
generation_config.json model.safetensors modeling_musec.py tokenizer.json tokenizer_config.json "
check "the model's file is ours" cmp plain-hf/modeling_musec.py "$MUSEC_SOURCE/src/train/hf/modeling_musec.py"
check "and its config's" cmp plain-hf/configuration_musec.py \
    "$MUSEC_SOURCE/src/train/hf/configuration_musec.py"
check "the run is as it was" test ! -e plain/hf
succeeds export plain/ --to hf --out again
check "the same bytes again" diff -r plain-hf again
succeeds export plain/checkpoint/step_00000020 --out below/one
check "of a checkpoint, in a new directory" diff -r plain-hf below/one
succeeds export plain --step 10 --out older
check "an older step" grep -q '^| steps | 10 of 20 |$' older/README.md
check "has other weights" test "$(cmp plain-hf/model.safetensors older/model.safetensors | wc -l)" -eq 1
succeeds export plain --dtype bf16 --out half
prints 'tensors of bf16$'
succeeds export full --out full-hf
succeeds export full --step 5 --out full-5
succeeds export bare --out bare-hf
check "nothing suppressed without padding" test "$(grep -c suppress bare-hf/generation_config.json)" -eq 0
succeeds export plain --json --out by-json
json_is out=by-json step=20 dtype=f32 tokenizer=true \
    parameters=$((3 * (4 * 48 * 32 + 2 * 48 * 64) + 2 * 320 * 48))
for word in 'library_name: transformers' 'trust_remote_code=True' 'last validation loss' '| data | builtin' \
    'soft-musec, lr ' 'windows of 5 and 20'; do
    check "the card says $word" grep -qF -- "$word" plain-hf/README.md
done

# with GPT-2's ids there is a tokenizer only if its vocabulary is there
succeeds "${tiny[@]}" --layers 1 --tokenizer gpt2 --steps 1 --out ids
warns "^musec export: no tokenizer: GPT-2's vocabulary is neither" export ids
prints 'tensors of f32, no tokenizer$'
check "without a vocabulary: no tokenizer" test ! -e ids-hf/tokenizer.json
check "the card says where to get it" grep -q 'There is no tokenizer here' ids-hf/README.md
fails 1 'nothing-here' export ids --vocab nothing-here --out ids-2
check "nothing is left" test -z "$(ls -d ids-2* 2>/dev/null)"
vocab=$shared_data/gpt2
if [ -d "$vocab" ]; then
    succeeds export ids --vocab "$vocab" --out ids-text
    succeeds export ids --vocab "$vocab/r50k_base.tiktoken" --out ids-tiktoken
    check "a vocabulary of any form" cmp ids-text/tokenizer.json ids-tiktoken/tokenizer.json
else
    skip "no vocabulary of GPT-2"
fi

# ---- wrong usage -------------------------------------------------------------------------------------

fails 2 'wants RUN' export
fails 2 "wants only RUN, but got 'b' too" export plain b
fails 2 '--to .*hf' export plain --to onnx
fails 2 '--dtype ' export plain --dtype f16
fails 1 '--step must be 0 or more' export plain --step -1
fails 1 'plain-hf: exists already; remove it, or choose another --out' export plain
touch file
fails 1 'file: exists already' export plain --out file
fails 1 'file/below.*' export plain --out file/below
fails 1 'missing: there is no such directory; the runs nearby are ' export missing
fails 1 'plain-hf: there is no checkpoint' export plain-hf --out x
mkdir without
cp plain/config.json plain/log.jsonl without
fails 1 'without: there is no checkpoint in this run; .* --keep-checkpoints' export without
fails 1 'plain: there is no checkpoint of step 15; there are those of steps 10, 20$' export plain --step 15 --out x
fails 1 'step_00000020: is the checkpoint of step 20, not of 10' \
    export plain/checkpoint/step_00000020 --step 10 --out x
fails 1 'give the directory a name: --out' export .
cp -r plain broken
printf x | dd of=broken/checkpoint/step_00000020/model.safetensors bs=1 seek=3000 conv=notrunc 2>/dev/null
fails 1 'model.safetensors: damaged' export broken --step 20 --out x
warns '^warning: 1 damaged, going back to step_00000010' export broken --out went-back
check "for the one before it" cmp went-back/model.safetensors older/model.safetensors
check "nothing is left" test -z "$(find . -maxdepth 2 -name '*.part.*' -o -maxdepth 1 -name 'x*')"
# a disk that is full: whole or absent
(
    trap '' XFSZ
    ulimit -f 40
    "$MUSEC" export plain --out full-disk >stdout 2>stderr
    test $? -eq 1
) && pass || fail "a full disk: $(cat stderr)"
check "a full disk leaves nothing" test -z "$(find . -maxdepth 1 -name 'full-disk*')"

# ---- the logits --------------------------------------------------------------------------------------

# Ours, behind every beginning of 60 ids: longer than every window but one.
{ echo 256 && seq 1 59 | awk '{print ($1 * 37 + int($1 / 7) * 11) % 256}'; } >ids.txt
logits() { check "logits of $1" "$(dirname "$MUSEC")/tests/export_test" "$1" ids.txt "$2"; }
logits plain plain.npy
logits full full.npy
logits full/checkpoint/step_00000005 full-5.npy
logits bare bare.npy

python=$(python_with numpy)
if [ -n "$python" ]; then
    judged "$python" "$MUSEC_SOURCE/tests/tools/hf_numpy.py"
else
    skip "no python3 with NumPy"
fi
python=$(python_with torch,transformers)
if [ -n "$python" ]; then
    export HF_HOME=$PWD/hf-home HF_HUB_OFFLINE=1 MUSEC
    judged "$python" "$MUSEC_SOURCE/tests/tools/hf_transformers.py"
else
    skip "no python3 with torch and transformers"
fi
finish
