# hostile.sh - files that are well formed and mean harm, names that a terminal would obey, and what
# processes that were killed left behind.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

tiny=(--preset pico --quiet --set layers=1 --set width=16 --set heads=1 --set head=16
    --set mlp=32 --set batch=64 --set max_doc=32 --set val_tokens=64)

# ---- counters near the end of their type, under a checksum that is right ----

run train --out run --steps 4 --checkpoint-every 2 "${tiny[@]}"
check "a run" test "$code" -eq 0
cp -r run whole
alter() { # alter STEP EXPRESSION: changes the state `s` of a checkpoint and seals it again
    python3 - "$@" <<'EOT'
import hashlib, json, sys
path = "run/checkpoint/step_%08d/state.json" % int(sys.argv[1])
root = json.load(open(path))
s = root["state"]
exec(sys.argv[2])
text = json.dumps(root, indent=1)
head = text[:text.rindex("\"sha256\": \"") + len("\"sha256\": \"")]
open(path, "w").write(head + hashlib.sha256(head.encode()).hexdigest() + '"\n}\n')
EOT
}
for member in 'tokens' 'too_high'; do
    rm -rf run && cp -r whole run
    alter 4 "s['$member'] = 2**63 - 1"
    warns "\"$member\" is missing or no number.*|1 damaged, going back to" train --resume run --steps 6
    check "$member: the checkpoint before it" grep -q 'going on from run/checkpoint/step_00000002' stderr
done
for member in epoch piece token tokens; do
    rm -rf run && cp -r whole run
    alter 4 "s['sets'][0]['$member'] = 2**63 - 1"
    run train --resume run --steps 6
    check "sets: $member is refused" test "$code" -eq 1
    check "sets: $member is named" grep -q '"sets" has no position' stderr
done
rm -rf run && cp -r whole run
alter 4 "del s['config']"
warns 'going back to step_00000002' train --resume run --steps 6

# ---- what killed processes left ----

rm -rf run && cp -r whole run
: >run/events.out.tfevents.musec.part.999999999
: >run/config.json.part.1
succeeds train --resume run --steps 6 --quiet
check "a part of no process is removed" test ! -e run/events.out.tfevents.musec.part.999999999
check "a part of a living process stays" test -e run/config.json.part.1

grid=(--optimizer muon --lr 0.02 --out sweep --jobs 1 --preset pico --set steps=2 --set layers=1
    --set width=16 --set heads=1 --set head=16 --set mlp=32 --set batch=64 --set max_doc=32
    --set val_tokens=64)
exits 0 sweep "${grid[@]}" --keep-checkpoints --json
made=$(echo sweep/pico-*)
succeeds sweep "${grid[@]}" --json
check "kept checkpoints stay" test -d "$made/checkpoint"
: >"$made/.checkpoint-is-temporary" # as if the first sweep had died before it removed them
succeeds sweep "${grid[@]}" --json
check "checkpoints of a sweep that died go" test ! -e "$made/checkpoint"
check "and so does the mark" test ! -e "$made/.checkpoint-is-temporary"

# ---- a flipped digit ----

rm -rf run && cp -r whole run
sed -i '3s/"max_logit": ./"max_logit": 9/;3s/"max_logit": 9/"max_logit": 8/' run/log.jsonl
fails 1 'run/log.jsonl: damaged: it is not the log of which summary.json' report run --out page.html
rm -rf run && cp -r whole run
sed -i 's/"best_loss": [0-9]/"best_loss": 9/' run/summary.json
fails 1 'run/summary.json: damaged: its bytes do not have the sha256' report run --out page.html

# ---- a log after a loss of power ----

rm -rf run && cp -r whole run
rm -rf run/checkpoint/step_00000004
printf 'torn\0\0\n{"step": 4' >>run/log.jsonl
succeeds train --resume run --quiet
check "what follows a checkpoint's step may be anything" test "$(wc -l <run/log.jsonl)" -eq 4

# ---- names that a terminal or a spreadsheet would obey ----

evil=$(printf 'runs/=cmd\033[31m')
mkdir -p runs
cp -r whole "$evil"
cp -r whole runs/plain
rm "$evil/summary.json" # unfinished, which is noted with its name
run report runs --out page.html
check "it is noted" grep -q 'runs/=cmd.*unfinished' stderr
check "a report with such a run" test "$code" -eq 0
check "no escape reaches the terminal" test "$(tr -d '\033' <stderr | cmp - stderr && echo same)" = same
# on stdout neither, nor the one of Unicode, U+009B
csi=$(printf '\302\233')
shows_no_control() { # shows_no_control ARGUMENT...: in neither stream
    run "$@"
    check "$1: control characters" test "$(cat stdout stderr | LC_ALL=C tr -d '\033' |
        LC_ALL=C sed "s/$csi//g" | cmp - <(cat stdout stderr) && echo none)" = none
}
mv "$evil" "runs/=cmd$csi"
evil=$(printf 'runs/=cmd\302\233\033[31m')
mv "runs/=cmd$csi" "$evil"
shows_no_control report runs --out "$evil/page.html"
shows_no_control report "$evil/none" --out page.html
shows_no_control report runs --out "$evil/none/page.html"
shows_no_control train --out "$evil/new" --steps 2 "${tiny[@]}"
shows_no_control tokenize "$MUSEC_SOURCE/README.md" --tokenizer byte --out "$evil/tokens"
shows_no_control export whole --out "$evil/model"
shows_no_control sweep --lr 0.1 --set steps=2 "${grid[@]:4}" --out "$evil/sweep"
shows_no_control sweep --best-of "$evil/none" --out "$evil/best"
shows_no_control "$evil"
python3 - "$evil" <<'EOT'
import json, struct, sys
head = json.dumps({sys.argv[1]: {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}},
                  ensure_ascii=False).encode()
head += b" " * (-len(head) % 8)
open("named.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<4f", 1, 2, 3, 5))
EOT
shows_no_control spectrum named.safetensors --values
check "the values are there" grep -Eq '^runs/=cmd.* 1 [0-9.]+$' stdout
rm -rf "$evil"
cp -r whole 'runs/=1+1'
exits 0 report runs --out page.html --csv csv
check "no cell is a formula" test "$(grep -c '^=' csv/*.csv | grep -vc ':0$')" -eq 0
check "but a text" grep -q "^'=1+1," csv/steps.csv

# ---- a picture that was cut off ----

mkdir bin
cat >bin/rsvg-convert <<'EOT'
#!/bin/sh
[ "$1" = --version ] || printf '\211PNG\r\n\032\n' >"$2" # what a full disk leaves, and exit status 0
EOT
chmod +x bin/rsvg-convert
PATH=$PWD/bin:$PATH fails 1 'wrote no whole picture' report whole --out page.html --png png
check "no picture is there" test "$(find png -name '*.png' | wc -l)" -eq 0

# ---- what a server sends ----

if ! "$MUSEC" info --no-peak | grep -Eq '^libcurl +[0-9]'; then
    skip "no libcurl"
    finish
fi
mkdir www
head -c 5000 /dev/zero >www/zeros.bin
python3 - <<'EOT' 2>server.log &
import functools, http.server, os
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="www")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
open("port.part", "w").write(str(server.server_address[1]))
os.rename("port.part", "port")
server.serve_forever()
EOT
server=$!
trap 'kill $server' EXIT
while [ ! -e port ]; do sleep 0.1; done
python3 - "$(cat port)" <<'EOT'
import json, struct, sys
open("www/right.bin", "wb").write(struct.pack("<256i", 20240520, 1, 900, *[0] * 253)
                                  + struct.pack("<900H", 50256, *range(899)))
sets = [{"name": name, "kind": "shards", "files": [{"name": name + ".bin", "urls": [
    "http://127.0.0.1:%s/%s.bin" % (sys.argv[1], name)]}]} for name in ("zeros", "right")]
json.dump({"sets": sets}, open("sources.json", "w"))
EOT
get=(data get --sources sources.json --retries 0 --quiet)
fails 1 'does not begin like a shard of tokens' "${get[@]}" zeros --out zeros
fails 1 'has 2824 bytes, more than the 2823 that are allowed; allow more with --max-file' \
    "${get[@]}" right --out right --max-file 2823
check "nothing of it is kept" test -z "$(find zeros right -name '*.bin' -o -size +1 -name '*.part')"
succeeds "${get[@]}" right --out right --max-file 2824

finish
