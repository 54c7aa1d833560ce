# sample.sh - text from checkpoints: the options that change it, JSON, and wrong usage.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way

tiny=(train --quiet "${small_model[@]}" --batch 256 --val-tokens 512 --steps 40 --checkpoint-every 20)
succeeds "${tiny[@]}" --out a
newest=a/checkpoint/step_00000040

# draws FILE ARGUMENT...: samples `a` into the file.
draws() {
    local file=$1
    shift
    succeeds sample a "$@"
    cp stdout "$file"
}
draws first --tokens 40 --prompt 'The '
check "the prompt comes first" test "$(head -c 4 first)" = 'The '
check "a newline at the end" test "$(tail -c 1 first | od -An -c | tr -d ' ')" = '\n'
draws again --tokens 40 --prompt 'The '
check "the same seed, the same text" cmp first again
draws zero --tokens 40 --prompt 'The ' --seed 0
check "which is 0" cmp first zero
draws other --tokens 40 --prompt 'The ' --seed 1
check "another seed, another text" test "$(cmp first other | wc -l)" -eq 1
draws longer --tokens 50 --prompt 'The '
check "more tokens go on from there" cmp <(head -c -1 first) <(head -c "$(($(wc -c <first) - 1))" longer)
draws warm --tokens 40 --prompt 'The ' --temperature 3
check "the temperature matters" test "$(cmp first warm | wc -l)" -eq 1

draws likeliest --tokens 30 --prompt 'The ' --temperature 0
draws one --tokens 30 --prompt 'The ' --top-k 1 --seed 7
check "of one, the likeliest" cmp likeliest one
draws cold --tokens 30 --prompt 'The ' --temperature 0.001 --seed 7
check "nearly 0 is 0" cmp likeliest cold
draws all --tokens 40 --prompt 'The ' --top-k 1000000
check "of all, as without" cmp first all
draws few --tokens 40 --prompt 'The ' --top-k 3
check "of three, another text" test "$(cmp first few | wc -l)" -eq 1

draws nothing --tokens 0
check "no token, a newline" test "$(wc -c <nothing)" -eq 1
draws prompt --tokens 0 --prompt 'as it is'
check "no token, the prompt" test "$(cat prompt)" = 'as it is'
draws empty --tokens 30 --prompt ''
draws none --tokens 30
check "an empty prompt is none" cmp empty none
long=$(head -c 500 /dev/zero | tr '\0' 'x')
draws long --tokens 5 --prompt "$long"
check "a prompt longer than a document" test "$(head -c 500 long)" = "$long"
draws bytes --tokens 5 --prompt $'\xff\xfe'
check "a prompt of any bytes" test "$(head -c 2 bytes)" = $'\xff\xfe'

# JSON has the same text; the log probabilities are those of the model, whatever the sampling
succeeds sample a --tokens 40 --prompt 'The ' --top-k 3 --json
json_passes <<'P'
j = out
assert "The " + j["text"] + "\n" == open("few").read(), j["text"]
assert j["prompt"] == "The " and j["prompt_ids"] == list(b"The "), j["prompt_ids"]
assert len(j["ids"]) == len(j["logprobs"]) == 40 and all(type(i) is int for i in j["ids"])
assert bytes(i for i in j["ids"] if i < 256).decode() in j["text"].replace("\n<|endoftext|>\n", "")
assert j["step"] == 40 and j["checkpoint"] == "a/checkpoint/step_00000040" and j["tokenizer"] == "byte"
assert j["seed"] == 0 and j["settings"]["top_k"] == 3 and j["settings"]["temperature"] == 0.8
assert all(x <= 0 for x in j["logprobs"])
P
# the probabilities of the first tokens, however they are drawn, sum to nearly 1 and not to more
python3 - "$MUSEC" <<'P' && pass || fail "the log probabilities of first tokens"
import json, math, subprocess, sys
seen = {}
for seed in range(60):
    how = ["--temperature", "0.8", "--top-k", "3"] if seed % 6 == 0 else ["--temperature", "1"]
    out = subprocess.run([sys.argv[1], "sample", "a", "--tokens", "1", "--prompt", "The ", *how,
                          "--seed", str(seed), "--json"], stdout=subprocess.PIPE, check=True).stdout
    j = json.loads(out)
    seen.setdefault(j["ids"][0], set()).add(j["logprobs"][0])
assert all(len(x) == 1 for x in seen.values()), seen # the same id, the same number
assert 0.5 < sum(math.exp(min(x)) for x in seen.values()) <= 1 + 1e-12, seen
P
succeeds sample a --tokens 5 --prompt $'\xff\xfe' --seed 18446744073709551615 --json
json_is prompt=$'\xef\xbf\xbd\xef\xbf\xbd' seed=18446744073709551615
succeeds sample a --tokens 0 --json
check "no token" test "$(json ids)$(json text)" = '[]'

# a run directory is its newest checkpoint
succeeds sample "$newest" --tokens 40 --prompt 'The '
check "the newest checkpoint" cmp stdout first
succeeds sample a/ --tokens 40 --prompt 'The '
check "a slash at the end" cmp stdout first
succeeds sample a/checkpoint/step_00000020 --tokens 40 --prompt 'The '
check "an older checkpoint" test "$(cmp stdout first | wc -l)" -eq 1
cp stdout older
cp -r "$newest" elsewhere
succeeds sample elsewhere --tokens 40 --prompt 'The '
check "a copied checkpoint" cmp stdout first
# the length of documents may be unlimited
succeeds "${tiny[@]}" --steps 1 --max-doc 999999999999 --out endless
succeeds sample endless --tokens 3
# models of GPT-2's ids print them where there is no vocabulary, and say so
export HOME=$PWD/nowhere
succeeds "${tiny[@]}" --steps 1 --tokenizer gpt2 --out gpt2
warns 'ids instead of text' sample gpt2 --tokens 3
prints '^[0-9]+ [0-9]+ [0-9]+ $'
run sample gpt2 --tokens 3 --json
check "ids have no text" grep -q '"text": null' stdout
fails 1 "GPT-2's vocabulary is neither in" sample gpt2 --tokens 3 --prompt The
vocab=$shared_data/gpt2
if [ -d "$vocab" ]; then
    succeeds sample gpt2 --tokens 3 --prompt 'The cat' --vocab "$vocab"
    prints '^The cat'
    # the built-in corpus becomes text in these ids, too: letters and spaces are likeliest
    succeeds "${tiny[@]}" --steps 12 --tokenizer gpt2 --out letters
    succeeds sample letters --tokens 40 --top-k 5 --vocab "$vocab"
    check "text: $(cat stdout)" test -z "$(tr -d ' a-z\n' <stdout)"
else
    skip "no vocabulary to sample GPT-2's ids as text"
fi

# ---- wrong usage -----------------------------------------------------------------------------------

fails 2 'wants CHECKPOINT' sample
fails 2 "wants only CHECKPOINT, but got 'b' too" sample a b
fails 2 "--temperature wants a number, not 'hot'" sample a --temperature hot
fails 2 '--tokens wants a whole number' sample a --tokens 2.5
fails 1 '--seed is -1; it must be from 0 to 18446744073709551615' sample a --seed -1
fails 2 'did you mean --temperature' sample a --temprature 1
fails 1 '--temperature must be 0, or 0.001 to 1000' sample a --temperature -1
fails 1 '--temperature must be' sample a --temperature 1e-9
fails 1 '--tokens must be 0 or more' sample a --tokens -1
fails 1 '--top-k must be 0 or more' sample a --top-k -1
fails 1 'no device "abacus"' sample a --device abacus
fails 1 'missing: there is no such directory; the runs nearby are a' sample missing
fails 1 'a/checkpoint: is not a run, but inside one; did you mean a\?' sample a/checkpoint
fails 1 'a/config.json: is not a run, but inside one; did you mean a\?' sample a/config.json
mkdir bare
cp a/config.json bare
fails 1 'bare: there is no checkpoint' sample bare
if [ -e /dev/full ]; then
    "$MUSEC" sample a --tokens 5 >/dev/full 2>stderr
    code=$?
    check "a full disk: exit 1" test $code -eq 1
    check "a full disk: says so" grep -q 'No space left' stderr
fi
# a run falls back to the checkpoint before a damaged one, with a warning; a checkpoint does not
printf x | dd of="$newest/model.safetensors" bs=1 seek=2000 conv=notrunc 2>/dev/null
fails 1 'model.safetensors: damaged' sample "$newest"
warns '^warning: 1 damaged, going back to step_00000020: ' sample a --tokens 40 --prompt 'The '
check "the older one" cmp stdout older
finish
