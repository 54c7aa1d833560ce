# train.sh - runs as a user makes them: their files, resuming bit for bit after kills and signals, and
# divergence.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way

tiny=(train --quiet "${small_model[@]}" --batch 128 --val-tokens 256 --val-every 20 --report-every 7)
small=("${tiny[@]}" --steps 60 --checkpoint-every 30 --keep 0)
for i in $(seq 1 400); do
    echo "line $i of a text that is read again and again, since it is short: $((i * i % 97))"
done >text.txt

# same WHAT DIR DIR STEP: the same log, but for times, and the same checkpoint of that step.
same() {
    local f
    untimed "$2" >a.log
    untimed "$3" >b.log
    check "$1: a log" test -s a.log
    check "$1: the same log" cmp a.log b.log
    for f in model.safetensors optim.safetensors state.json; do
        check "$1: the same $f" cmp "$(checkpoint "$2" "$4")/$f" "$(checkpoint "$3" "$4")/$f"
    done
}
# torn DIR NEW: NEW is DIR as a process killed after step 30's checkpoint would have left it.
torn() {
    rm -rf "$2"
    cp -r "$1" "$2"
    rm -r "$2/checkpoint/step_00000060" "$2/summary.json"
    mkdir "$2/checkpoint/.step_00000060.part.999999999"
    { head -n 41 "$1/log.jsonl" && printf '{"step": 42, "tok'; } >"$2/log.jsonl"
}

# ---- a run -----------------------------------------------------------------------------------------

succeeds "${small[@]}" --out a
prints '^done after 60 steps, 7680 tokens, [0-9.]+ s: loss [0-9.]+, val [0-9.]+; a$'
for f in config.json log.jsonl summary.json events.out.tfevents.musec; do
    check "$f" test -s "a/$f"
done
check "a line a step" test "$(wc -l <a/log.jsonl)" -eq 60
check "steps in order" test "$(sed -E 's/^\{"step": ([0-9]+),.*/\1/' a/log.jsonl | tr '\n' ' ')" \
    = "$(seq -s ' ' 1 60) "
check "validations" test "$(grep -c val_loss a/log.jsonl)" -eq 3
check "groups" test "$(grep -c '"groups": {"qk": {"w_norm": [0-9]' a/log.jsonl)" -eq 8
# shellcheck disable=SC2016  # awk's own
check "it learns" awk 'BEGIN { RS = "," } $1 ~ /"loss":/ { n++; if (n == 1) first = $2; last = $2 }
    END { exit !(last < first - 1) }' a/log.jsonl
check "done" summary a status '"done"'
check "no reason" summary a reason null
check "two checkpoints" test "$(ls a/checkpoint)" = "$(printf 'step_00000030\nstep_00000060')"
check "nothing else" test "$(find a -type f | wc -l)" -eq 10
check "typed numbers stay as typed" grep -q '"lr": 0.2,' a/config.json

succeeds "${small[@]}" --out b
same "the same seed" a b 60
succeeds "${small[@]}" --seed 1 --out other
untimed other >other.log
check "another seed is another run" test "$(cmp a.log other.log | wc -l)" -eq 1
succeeds train --quiet --config a/config.json --out replayed
same "config.json replays the run" a replayed 60
check "config.json is the same" cmp a/config.json replayed/config.json
OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 run "${small[@]}" --out threads
# shellcheck disable=SC2016  # awk's own
loss_at='{ if (match($0, /"loss": [0-9.e+-]+/)) print substr($0, RSTART + 8, RLENGTH - 8) }'
check "two threads come to the same" near 1e-4 \
    "$(awk "$loss_at" threads/log.jsonl | sed -n 20p)" "$(awk "$loss_at" a/log.jsonl | sed -n 20p)"

# where stderr is no terminal, progress is in lines
warns '^step 20/20: loss [0-9.]+, val [0-9.]+, lr' train "${tiny[@]:2}" --steps 20 --out plain
check "no carriage return" test -z "$(tr -dc '\r\033' <stderr)"

# the defaults in --help are those of a run without options
succeeds train --quiet --steps 1 --out usual
succeeds train --help
python3 -c '
import json, re, sys
has = json.load(open("usual/config.json"))
text = re.sub(r"\n {10,}", " ", open("stdout").read())
said = dict(re.findall(r"^  --([a-z0-9-]+) .*\[([^]]*)\]$", text, re.M))
def number(x):
    try: return float(x)
    except ValueError: return x
for name, value in said.items():
    is_ = has.get(name.replace("-", "_"))
    if is_ in (None, "") or name in ("steps", "vocab", "config", "set"): continue
    if isinstance(is_, dict): is_ = ",".join(str(x) for x in is_.values())
    word, parts = re.split("[:;]", value)[0], {number(x.split("=")[-1]) for x in str(is_).split(",")}
    if word != is_ and parts != {number(word)}: print(name, value, is_)
print(len(said), "of", len(has), "fields,", said["steps"], "steps")' >said.out
check "--help says what applies: $(cat said.out)" \
    awk 'END {exit !(NR == 1 && $1 >= $3 - 2 && $5 == 200)}' said.out

# --explain prints and stops
succeeds "${small[@]}" --out never --explain
prints '^device: [a-z0-9:]+, activations in (f32|bf16) \(auto\)' '^model: 1 layer of 32' \
    '^  steps 1-60: 128 tokens' '^layer.0.attn.q: role qk, soft-musec' '^  total +[0-9.]+ MiB' '^  available +[0-9.]+ MiB'
check "--explain writes nothing" test ! -e never
succeeds "${small[@]}" --out never --explain --device ref --precision bf16 --deterministic no
prints '^device: ref, activations in bf16, weights and gradients in f32, not deterministic$' \
    '^  weights +[0-9.]+ MiB' '^  copies +[0-9.]+ MiB'
succeeds "${small[@]}" --out never --explain --json
json_passes <<'P'
j = out
params = {p["name"]: p for p in j["parameters"]}
q, down, embed = params["layer.0.attn.q"], params["layer.0.mlp.down"], params["embed"]
assert (q["role"], q["rule"], q["rows"], q["cols"], q["matrices"]) == ("qk", "soft-musec", 32, 32, 1), q
assert down["role"] == "mlp" and embed["rule"] == "adamw" and embed["shape_factor"] is None, embed
assert q["lr"] == j["config"]["lr"] and embed["lr"] == j["config"]["aux_lr"], q
assert q["weight_decay"] == j["config"]["weight_decay"]["qk"], q
n = j["model"]["parameters"]
assert n["total"] == sum(p["rows"] * p["cols"] for p in params.values()), n
assert n["matrix"] == sum(p["rows"] * p["cols"] for p in params.values() if p["matrices"]), n
assert j["model"]["layers"] == 1 and j["model"]["qk_norm"] in (True, False)
s = j["schedule"]
assert s["steps"] == 60 and sum((g["last_step"] - g["first_step"] + 1) * g["batch"] for g in s["stages"]) == s["tokens"]
m = j["memory_bytes"]
assert m["weights"] == 4 * n["total"] and m["needed"] <= m["total"] and m["available"] > 0, m
assert m["total"] == sum(v for k, v in m.items() if k not in ("total", "needed", "available")), m
assert j["device"]["name"] and j["data"]["train"][0]["tokens"] is None # the corpus has no end
assert j["optimizer"] == "soft-musec" and j["config"]["steps"] == 60
P
succeeds "${tiny[@]}" --steps 5 --out json --json
json_is status=done reason=null steps=5 out=json
check "json: loss" test "$(json last_loss | cut -c1-3)" = 5.4
check "each line is JSON" python3 -c 'import json
for n, line in enumerate(open("a/log.jsonl"), 1): assert json.loads(line)["step"] == n
assert json.load(open("a/summary.json"))["steps"] == 60
assert json.load(open("a/config.json"))["stages"] == ""'
if python3 -c 'import safetensors, numpy' 2>/dev/null; then
    check "the safetensors package reads a checkpoint" python3 -c '
from safetensors import safe_open
with safe_open("a/checkpoint/step_00000060/model.safetensors", "np") as f:
    assert f.get_tensor("layer.0.mlp.up").shape == (64, 32) and len(list(f.keys())) == 8
with safe_open("a/checkpoint/step_00000060/optim.safetensors", "np") as f:
    assert f.metadata()["optimizer"] == "soft-musec" and len(list(f.keys())) > 8
    for k in f.keys(): f.get_tensor(k)'
else
    skip "the safetensors package is not here"
fi
succeeds spectrum a/checkpoint/step_00000060/model.safetensors
prints 'layer.0.attn.q'

# ---- resuming, bit for bit -------------------------------------------------------------------------

# resumes WHAT ARGUMENT...: compares 60 steps by one process with 30 by one and 30 by another.
resumes() {
    local what=$1
    shift
    rm -rf whole
    succeeds "${small[@]}" "$@" --out whole
    torn whole torn
    succeeds train --quiet --resume torn
    same "$what" whole torn 60
    check "$what: the part is gone" test -z "$(find torn -name '*.part.*')"
}
resumes "stages" --stages "50% batch=128 window=31/63 mtp=1,0.5>1,0; rest batch=256 window=15/63 micro=2 lr=1.5"
resumes "muonclip" --optimizer muonclip --qk-norm no --qk-tau 0.5 --lr 0.1
resumes "adamw, momentum warm-up" --optimizer adamw --momentum-warmup 40 --momentum-cooldown 25
resumes "muon, warm-up" --optimizer muon --momentum-warmup 40 --nesterov yes --weight-decay 0.1
resumes "another epoch" --data text.txt --batch 512
check "which comes after the checkpoint" test "$(sed -n 30p whole/log.jsonl | grep -o 'epoch": [0-9]*')" \
    != "$(sed -n 60p whole/log.jsonl | grep -o 'epoch": [0-9]*')"
resumes "documents cut" --doc-rest skip --optimizer musec

# nothing left to do
cp -r a again
succeeds train --quiet --resume again
prints '^done after 60 steps'
same "nothing left to do" a again 60
check "its time is still known" test "$(grep time_s again/summary.json)" = "$(grep time_s a/summary.json)"
# with more steps and without a cooldown the first steps are the same
succeeds "${tiny[@]}" --cooldown 0 --steps 60 --out longer
succeeds train --quiet --resume longer --steps 90
prints '^done after 90 steps'
succeeds "${tiny[@]}" --cooldown 0 --steps 90 --val-every 30 --out at_once
succeeds "${tiny[@]}" --cooldown 0 --steps 60 --val-every 30 --out longer30
succeeds train --quiet --resume longer30 --steps 90
same "extended" at_once longer30 90
check "a line a step, extended" test "$(wc -l <longer/log.jsonl)" -eq 90
fails 1 'longer/checkpoint/step_00000090 is of step 90, beyond the 20 steps' \
    train --quiet --resume longer --steps 20
check "config.json still says 90" grep -q '"steps": 90,' longer/config.json
# a config and no checkpoint
mkdir bare
cp a/config.json bare
warns '^bare has no checkpoint yet: starting at step 0$' train --resume bare
same "from a config alone" a bare 60
# missing logs begin again
torn a lost
rm lost/log.jsonl lost/events.out.tfevents.musec
succeeds train --quiet --resume lost
check "the rest is logged" test "$(wc -l <lost/log.jsonl)" -eq 30

# ---- killed and interrupted ------------------------------------------------------------------------

# stopped SIGNAL DIR FILE ARGUMENT...: sends musec the signal once the file is not empty, and again if it
# had ended before.  Its exit code is in $code.
stopped() {
    local signal=$1 dir=$2 file=$3 pid
    shift 3
    for _ in 1 2 3 4 5; do
        rm -rf "$dir"
        "$MUSEC" "$@" --out "$dir" >stdout 2>stderr &
        pid=$!
        await $pid test -s "$dir/$file" -o -d "$dir/$file"
        kill -s "$signal" $pid 2>/dev/null
        wait $pid 2>/dev/null
        code=$?
        if ! summary "$dir" status '"done"' 2>/dev/null; then return; fi
    done
}
slow=("${small[@]}" --batch 1024)
succeeds "${slow[@]}" --out slow
{ stopped KILL killed checkpoint/step_00000030 "${slow[@]}"; } 2>/dev/null
check "killed" test "$code" -eq 137
check "no summary of a killed run" test ! -e killed/summary.json
succeeds train --quiet --resume killed
same "kill -9" slow killed 60
for signal in INT TERM; do
    # a background job of a script ignores SIGINT unless job control is on
    set -m
    stopped $signal stopped log.jsonl train "${slow[@]:2}"
    set +m
    check "SIG$signal: exit 128 + $(kill -l $signal), not $code" test "$code" -eq $((128 + $(kill -l $signal)))
    check "SIG$signal: says how to go on" grep -q \
        '^interrupted; go on with: musec train --resume stopped$' stderr
    check "SIG$signal: the summary" summary stopped status '"interrupted"'
    prints '^interrupted after [0-9]+ steps'
    last=$(tail -n 1 stopped/log.jsonl | sed -E 's/^\{"step": ([0-9]+),.*/\1/')
    check "SIG$signal: a checkpoint of its last step" \
        test -e "$(checkpoint stopped "$last")/state.json"
    succeeds train --quiet --resume stopped
    same "SIG$signal" slow stopped 60
    check "SIG$signal: the summary after" summary stopped status '"done"'
done

# ---- divergence is a result ------------------------------------------------------------------------

# diverges PATTERN STEPS ARGUMENT...
diverges() {
    local pattern=$1 steps=$2
    shift 2
    rm -rf wild
    succeeds "${tiny[@]}" --steps 40 --out wild --cap none "$@"
    prints "^diverged: $pattern after $steps steps"
    check "$*: status" summary wild status '"diverged"'
    check "$*: reason" summary wild reason "\"$pattern"
    check "$*: logged" test "$(wc -l <wild/log.jsonl)" -eq "$steps"
}
diverges 'the loss stays far above its first value' 11 --aux-lr 1e8 --checkpoint-every 5
check "the last good checkpoints are there" test -e wild/checkpoint/step_00000010
check "none of the step that diverged" test ! -e wild/checkpoint/step_00000011
succeeds train --quiet --resume wild
prints '^diverged: .* after 11 steps'
diverges 'the loss stays far above its first value' 4 --aux-lr 1e8 --diverge-steps 3
# a weight of the head that is NaN makes every loss NaN
rm -rf wild
succeeds "${tiny[@]}" --steps 2 --out wild --cap none
check "a weight becomes NaN" python3 - wild/checkpoint/step_00000002 <<'P'
import hashlib, json, struct, sys
model, state = (sys.argv[1] + "/" + f for f in ("model.safetensors", "state.json"))
data = bytearray(open(model, "rb").read())
old, (size,) = hashlib.sha256(data).hexdigest(), struct.unpack("<Q", data[:8])
at = 8 + size + json.loads(data[8:8 + size])["head"]["data_offsets"][0]
data[at:at + 4] = struct.pack("<f", float("nan"))
open(model, "wb").write(data)
text = open(state).read()
assert text.count(old) == 1
text = text.replace(old, hashlib.sha256(data).hexdigest())[:-68]  # the sum of what is before it
open(state, "w").write(text + hashlib.sha256(text.encode()).hexdigest() + '"\n}\n')
P
succeeds train --quiet --resume wild --steps 40
prints '^diverged: the loss is not finite after 3 steps'
check "NaN: the reason" summary wild reason '"the loss is not finite'
check "NaN: logged" test "$(wc -l <wild/log.jsonl)" -eq 3
check "null in the log" grep -q '"loss": null' wild/log.jsonl
check "null in the summary" summary wild last_loss null
prints ': loss nan, val [0-9.]+; wild$'
overflow=(--init-embed 0 --norm-eps 1e-30 --init-head 9e8)
diverges 'step 1: the gradient of embed holds a NaN.*' 1 "${overflow[@]}"
rm -rf wild
succeeds "${tiny[@]}" --steps 3 --out wild --cap none "${overflow[@]}" --nonfinite skip
prints '^done after 3 steps'
succeeds "${tiny[@]}" --steps 12 --out calm --cap none --aux-lr 1e8 --diverge-factor 1e9 --diverge-steps 3
prints '^diverged: its loss began at .* and ends above that, at .* after 12 steps'

# ---- two processes at once -------------------------------------------------------------------------

"$MUSEC" "${tiny[@]}" --steps 1000000 --out busy >/dev/null 2>&1 &
first=$!
check "a first run begins" await $first test -s busy/log.jsonl
fails 1 'busy: another process is writing there' train --quiet --resume busy
kill -TERM $first
wait $first
check "the first was not disturbed" summary busy status '"interrupted"'
lines=$(wc -l <busy/log.jsonl)
"$MUSEC" train --quiet --resume busy --steps 2000000 >/dev/null 2>&1 &
first=$!
check "it goes on" await $first has_lines busy/log.jsonl $((lines + 1))
{ kill -9 $first && wait $first; } 2>/dev/null
check "a run that goes on has no summary" test ! -e busy/summary.json
finish
