# train_origin.sh - what a run was made from: results that resuming must not destroy, settings and data
# that changed on the way, data below another directory, and a terminal that is closed.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way

tiny=(train --quiet "${small_model[@]}" --batch 128 --val-tokens 256)
text() { # text WORDS: 400 lines of them
    local i
    for i in $(seq 1 400); do echo "line $i: $1, $((i * i % 97))"; done
}
state() { echo "$(checkpoint "$1" "$2")/state.json"; }

# ---- results without a checkpoint ------------------------------------------------------------------

succeeds "${tiny[@]}" --steps 20 --out over
rm -r over/checkpoint
sums over
for steps in 20 1000; do
    fails 1 'over/summary.json says that the run is done, and there is no checkpoint to go on from .*--keep-checkpoints.*--checkpoint-every.*another run with --out' \
        train --resume over --steps $steps
    untouched over "$steps steps"
done
succeeds "${tiny[@]}" --steps 20 --cap none --optimizer sgdm --lr 1e9 --aux-lr 1e9 --out wild
prints '^diverged'
rm -rf wild/checkpoint
sums wild
fails 1 'wild/summary.json says that the run is diverged, and there is no checkpoint' train --resume wild
untouched wild "diverged"
# runs of a sweep have no checkpoints either
sweep=(sweep --set layers=1 --set width=16 --set heads=1 --set head=16 --set mlp=16 --set batch=64
    --set max-doc=32 --set val-tokens=64 --set steps=6)
run "${sweep[@]}" --out swept
one=$(echo swept/pico-*)
sums swept
fails 1 "$one/summary.json says that the run is done" train --resume "$one" --steps 100
untouched swept "a sweep's run"
# a run killed before its first checkpoint has no results: it begins again and says so
cp -r over killed
rm killed/summary.json
warns '^killed has no checkpoint yet: starting at step 0$' train --quiet --resume killed

# ---- settings that changed on the way --------------------------------------------------------------

mkdir runs
succeeds "${tiny[@]}" --steps 20 --out runs/extended
succeeds train --quiet --resume runs/extended --steps 40
succeeds "${tiny[@]}" --steps 40 --out runs/whole
check "the config is the same" cmp runs/extended/config.json runs/whole/config.json
untimed runs/whole >whole.log
check "the run is not" test "$(untimed runs/extended | cmp - whole.log | wc -l)" -eq 1
steps='[{"step": 20, "key": "steps", "from": "20", "to": "40"}'
check "it is recorded" grep -qF "\"resumed\": $steps]" runs/extended/summary.json
check "in the checkpoint too" grep -q '"resumed": \[' "$(state runs/extended 40)"
check "a whole run has no record" test -z "$(grep -rl resumed runs/whole)"
succeeds train --quiet --resume runs/extended
check "going on without a step keeps it" grep -qF "\"resumed\": $steps]" runs/extended/summary.json
cp -r runs/extended further
succeeds train --quiet --resume further --steps 50
check "and so does going further" grep -qF \
    "\"resumed\": $steps, {\"step\": 40, \"key\": \"steps\", \"from\": \"40\", \"to\": \"50\"}]" \
    further/summary.json
# a shortened run had another schedule
succeeds "${tiny[@]}" --steps 40 --checkpoint-every 20 --out short
rm -r "short/checkpoint/step_00000040" short/summary.json
cp -r short back
succeeds train --quiet --resume short --steps 25
check "a shortened run" grep -qF '[{"step": 20, "key": "steps", "from": "40", "to": "25"}]' \
    short/summary.json
# a run with its first settings has no record, whatever was tried between
rm -rf back/checkpoint/step_00000040
succeeds train --quiet --resume back --steps 20
check "cut off at once" summary back resumed '\[\{"step": 20'
succeeds train --quiet --resume back --steps 40
check "and made as it was meant to be" test -z "$(grep -rl resumed back)"
untimed back >back.log
check "that is the whole run" cmp back.log whole.log
# more steps at a constant rate, and settings that do not affect the weights, are no change
succeeds "${tiny[@]}" --cooldown 0 --steps 20 --val-every 20 --out flat
succeeds train --quiet --resume flat --steps 40 --val-every 10 --checkpoint-every 7 --keep 3
check "nothing was changed by that" test -z "$(grep -rl resumed flat)"
# another device, and another dtype of the momentum
warns '^warning: flat was computed on cpu' \
    train --quiet --resume flat --steps 44 --device ref --momentum-dtype bf16
for key in '"device", "from": "cpu", "to": "ref"' '"momentum_dtype", "from": "own", "to": "bf16"'; do
    check "elsewhere: $key" summary flat resumed ".*\"step\": 40, \"key\": $key"
done
warns 'note: runs/extended: it went on with other settings \(steps 20 to 40 at step 20\)' \
    report runs --out page.html --csv csv
check "report: not the same run" test -z "$(grep 'the same run' stderr)"
check "report: on the page" grep -q 'steps 20 to 40 at step 20' page.html
check "report: apart" test "$(find csv -name 'hyperparameters-*' | wc -l)" -eq 2
# a grid does not accept such a run
run "${sweep[@]}" --keep-checkpoints --out grid
one=$(echo grid/pico-*)
succeeds train --quiet --resume "$one" --steps 9
fails 1 "$one/config.json says steps 9, not 6" "${sweep[@]}" --out grid
run "${sweep[@]}" --set steps=9 --out grid
two=$(find grid -maxdepth 1 -name 'pico-*' ! -path "$one")
rm -r "${two:?}"
cp -r "$one" "$two"
fails 1 "$two/summary.json is of a run that went on with steps 9 in place of 6 after step 6: .*--out" \
    "${sweep[@]}" --set steps=9 --out grid

# ---- other data under the same name ----------------------------------------------------------------

text "a first text" >t.txt
cp t.txt first.txt
succeeds "${tiny[@]}" --steps 20 --data t.txt --out read
for f in read/summary.json "$(state read 20)"; do
    check "$f says which data" grep -q '"sha256"' "$f"
done
check "tokens and sum" grep -Eq '"data": \{"train": \[\{"name": "t.txt", "tokens": [0-9]+, "sha256": "[0-9a-f]{64}", "weight": 1.0\}\], "val": \[\{' \
    read/summary.json
check "the sum is that of docs/formats.md" python3 - read/summary.json first.txt <<'P'
import hashlib, json, sys
sets = json.load(open(sys.argv[1]))["data"]
text = open(sys.argv[2], "rb").read()
all_tokens = len(text) + 1 # and the start of the one document
cut = all_tokens - all_tokens // 10
for side, begin, end in ("train", 0, cut), ("val", cut, all_tokens):
    said = b"".join(n.to_bytes(8, "little") for n in (begin, end, len(text))) + text
    assert sets[side] == [{"name": "t.txt", "tokens": end - begin, "sha256": hashlib.sha256(said).hexdigest(), "weight": 1.0}]
P
text "another one!" >t.txt
check "of the same length" test "$(wc -c <t.txt)" -eq "$(wc -c <first.txt)"
sums read
fails 1 'read was trained on other data: t.txt had [0-9]+ tokens, sha256 [0-9a-f]{16}, and has [0-9]+ tokens, sha256 .*put the old data back.*--data.*--out' \
    train --quiet --resume read --steps 40
untouched read "other data"
fails 1 'read was trained on other data: t.txt had' \
    train --quiet --resume read --steps 40 --val-data first.txt
untouched read "other data, and other data to validate on"
text "a second text" >second.txt
succeeds "${tiny[@]}" --steps 4 --data first.txt=1 --data second.txt=3 --out mixed
succeeds train --quiet --resume mixed --steps 6 --data first.txt=3 --data second.txt=1
check "other weights are a change" summary mixed resumed '.*"step": 4, "key": "data", "from": "first.txt=1;second.txt=3", "to": "first.txt=3;second.txt=1"'
cp -r read moved
succeeds train --quiet --resume moved --steps 40 --data first.txt
check "the same data, moved, are no change" test -z "$(grep '"key": "data"' moved/summary.json)"
cp -r read other
warns '^warning: other goes on with other data: t.txt had' \
    train --quiet --resume other --steps 40 --data ./t.txt
check "other data by another name: a record" summary other resumed '.*"step": 20, "key": "data", "from": "t.txt", "to": "./t.txt"'
rm t.txt
mkdir shards
cp first.txt shards/a.txt
cp first.txt shards/val.txt
succeeds "${tiny[@]}" --steps 4 --data shards --out files
text "one more" >>shards/val.txt
fails 1 'files was trained on other data: shards had' train --quiet --resume files --steps 8
cp first.txt shards/val.txt
succeeds train --quiet --resume files --steps 8

# a finished run of a sweep
cp first.txt t.txt
for _ in 1 2; do run "${sweep[@]}" --data t.txt --out grown; done
prints '^1 run in grown: 1 done$'
sums grown
text "another one!" >t.txt
for more in --dry-run --json; do
    fails 1 'grown/pico.*/summary.json is of a run on other data: t.txt had .*, and has .*take another --out' \
        "${sweep[@]}" --data t.txt --out grown $more
    untouched grown "a sweep on other data"
done
rm t.txt # finished runs do not need their data
succeeds "${sweep[@]}" --data t.txt --out grown
cp first.txt t.txt
succeeds "${sweep[@]}" --data t.txt --out grown
prints '^1 run in grown: 1 done$'

# ---- resumed from another directory ----------------------------------------------------------------

succeeds "${tiny[@]}" --steps 40 --checkpoint-every 20 --data t.txt=2 --data shards --out here
cp -r here there
rm -r there/checkpoint/step_00000040 there/summary.json
mkdir elsewhere
(cd elsewhere && "$MUSEC" train --quiet --resume ../there >../stdout 2>../stderr)
code=$?
check "data are found from elsewhere: $(cat stderr)" test "$code" -eq 0
check "and the run is the same" cmp "$(state here 40)" "$(state there 40)"
check "its config too" cmp here/config.json there/config.json
# shellcheck disable=SC2016  # sh's own
check "no directory is recorded where no path is relative" sh -c '! grep -q data_dir "$0"' "$(state runs/whole 40)"

# ---- a terminal that is closed ---------------------------------------------------------------------

# hangs_up DIR COMMAND...: a run of an hour gets SIGHUP twice, as terminal and shell send it.
hangs_up() {
    local dir=$1 pid
    shift
    "$@" "$MUSEC" "${tiny[@]}" --steps 10000000 --out "$dir" >/dev/null 2>&1 &
    pid=$!
    check "SIGHUP, $dir: it runs" await $pid test -s "$dir/log.jsonl"
    kill -HUP $pid
    kill -HUP $pid 2>/dev/null
    if [ "$*" = nohup ]; then
        check "nohup: it goes on" await $pid has_lines "$dir/log.jsonl" $(($(wc -l <"$dir/log.jsonl") + 2))
        kill -TERM $pid
    fi
    wait $pid 2>/dev/null
    code=$?
    want=129
    if [ "$*" = nohup ]; then want=143; fi
    check "SIGHUP, $dir: exit $want, not $code" test "$code" -eq $want
    check "SIGHUP, $dir: the summary" summary "$dir" status '"interrupted"'
    check "SIGHUP, $dir: a checkpoint" test -n "$(find "$dir/checkpoint" -name state.json)"
}
hangs_up hung env
hangs_up kept nohup
finish
