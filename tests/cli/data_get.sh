# data_get.sh - data sets from a server that misbehaves: whole and verified in the end, or a line with
# the reason.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

# ---- without a server ----

succeeds data get --list
for name in gpt2-vocab fineweb openwebtext c4; do prints "^$name +[0-9]+ files, "; done
prints 'licence: ODC-By' 'have not been tried'
succeeds data get --list --json
json_is 1.name=fineweb 1.files=104 1.tried=false
fails 2 'give the NAME' data get
fails 1 "no data set 'fineweb2'; there are gpt2-vocab, fineweb," data get fineweb2
fails 1 '--stall must be from 1' data get fineweb --stall 0
fails 1 'nowhere.json: cannot open' data get fineweb --sources nowhere.json

wrong() { # wrong PATTERN JSON: a list of sources that is refused
    printf '%s\n' "$2" >wrong.json
    fails 1 "wrong.json:.*$1" data get a --sources wrong.json
}
one='"name": "f", "urls": ["http://x/f"]'
wrong '[0-9]+: is no JSON' '{'
wrong 'no list "sets"' '{}'
wrong 'needs "name", "kind" and "files"' '{"sets": [{"name": "a"}]}'
wrong '"kind" is vocab, .* not .zip.' "{\"sets\": [{\"name\": \"a\", \"kind\": \"zip\", \"files\": [{$one}]}]}"
wrong 'not the name of a file' '{"sets": [{"name": "a", "kind": "vocab", "files": [{"name": "../f", "urls": ["http://x/f"]}]}]}'
wrong 'begins with https' '{"sets": [{"name": "a", "kind": "vocab", "files": [{"name": "f", "urls": ["file:///f"]}]}]}'
wrong 'ranges of the same number' '{"sets": [{"name": "a", "kind": "vocab", "files": [{"name": "f{1..3}", "urls": ["http://x/{1..4}"]}]}]}'
wrong '64 digits' "{\"sets\": [{\"name\": \"a\", \"kind\": \"vocab\", \"files\": [{$one}], \"known\": {\"f\": {\"sha256\": \"12\"}}}]}"

if ! "$MUSEC" info --no-peak | grep -Eq '^libcurl +[0-9]'; then
    fails 1 'libcurl4-openssl-dev' data get gpt2-vocab --out none
    skip "no libcurl"
    finish
fi

# ---- a server, and files for it ----

mkdir -p root leash
python3 - <<'EOT'
import base64, gzip, json, random, struct
dice = random.Random(1)
for name, n in ("val_0", 700), ("train_1", 1000), ("train_2", 1000), ("train_3", 900):
    tokens = [50256] + [dice.randrange(50256) for _ in range(n - 1)]
    with open("root/%s.bin" % name, "wb") as f:
        f.write(struct.pack("<256i", 20240520, 1, n, *[0] * 253) + struct.pack("<%dH" % n, *tokens))
for name in "text_0", "text_1", "text_2", "text_9":
    with gzip.open("root/%s.json.gz" % name, "wt") as f:
        for _ in range(200):
            words = "".join(dice.choice("etaoin shrdlu") for _ in range(dice.randrange(1, 400)))
            f.write(json.dumps({"url": "x", "text": words}) + "\n")
    with open("root/%s.parquet" % name, "wb") as f: # for the duckdb below
        f.write(b"PAR1" + gzip.open("root/%s.json.gz" % name).read())
with open("big", "wb") as f:
    f.write(dice.randbytes(300000))
# A vocabulary of GPT-2's size: all bytes, and as many pairs of them as there is room for.
with open("r50k_base.tiktoken", "wb") as f:
    pairs = [bytes([a, b]) for a in range(97, 256 + 97) for b in range(256) if a < 256]
    pairs += [bytes([a, b]) for a in range(97) for b in range(256)]
    for rank, token in enumerate([bytes([b]) for b in range(256)] + pairs[:50000]):
        f.write(base64.b64encode(token) + b" %d\n" % rank)
EOT
mkdir -p root/far
cp big root/big
cp big root/far/big

mkfifo leash/in
python3 "$MUSEC_SOURCE/tests/tools/http_server.py" root log <leash/in >port &
pid=$!
exec 9>leash/in # the server ends when this is closed
await $pid test -s port
base=http://127.0.0.1:$(cat port)
sum() { sha256sum "$1" | cut -d' ' -f1; }
requests() { grep -c "^/$1 " log; }

# list KIND FAULTS FILES [KNOWN]: writes s.json with a set called `set`; FILES is the JSON of its rows,
# with @ for the server and its faults.
list() {
    printf '{"sets": [{"name": "set", "kind": "%s", "files": [%s], "known": {%s}}]}\n' "$1" "$3" \
        "${4:-}" | sed "s|@|$base/$2|g" >s.json
}
get() { succeeds data get set --sources s.json --retry-delay 1 --stall 300 --quiet "$@"; }
get_fails() {
    local pattern=$1
    shift
    fails 1 "$pattern" data get set --sources s.json --retry-delay 1 --stall 300 --retries 2 --quiet "$@"
}

# ---- files as they are ----

big='{"name": "big", "urls": ["@/big"]}'
list vocab plain "$big" "\"big\": {\"bytes\": 300000, \"sha256\": \"$(sum big)\"}"
get --out vocab
prints '^vocab: 1 file \(0 were there\), 0.3 MB fetched'
check "the file" cmp big vocab/big
check "its checksum is kept" grep -q "$(sum big)" vocab/checksums.json
get --out vocab
prints '1 file \(1 was there\), 0.0 MB'
check "it was fetched once" test "$(requests plain/big)" = 1
mkdir home
HOME=$PWD/home get
prints "home/.local/share/musec/gpt2: 1 file "
printf x >>vocab/big
get_fails 'vocab/big: has 300001 bytes, 300000 were expected; remove it' --out vocab
{
    head -c 299999 big
    printf '\n'
} >vocab/big
get --out vocab # of the right length: taken as it is
get_fails 'vocab/big: its sha256 is .* was expected; remove it' --out vocab --verify

for faults in cut:70000 status:429:2 status:500:2 norange,cut:100000:2 newtag,cut:100000:1 redirect; do
    list vocab "$faults" "$big" "\"big\": {\"sha256\": \"$(sum big)\"}"
    get --out "vocab-$faults"
    check "$faults: the right bytes" cmp big "vocab-$faults/big"
done
while read -r faults pattern; do
    list vocab "$faults" "$big" "\"big\": {\"bytes\": 300000, \"sha256\": \"$(sum big)\"}"
    get_fails "$pattern" --out "vocab-$faults"
    check "$faults: nothing under the name" test ! -e "vocab-$faults/big"
done <<'EOT'
status:404 /status:404/big: HTTP 404 \(Not Found\); the address may have moved
status:429 HTTP 429
corrupt the sha256 of the file is
longer has 300010 bytes there, 300000 were expected
EOT
check "404 is not tried again" test "$(requests status:404/big)" = 1
check "429 is tried again" test "$(requests status:429/big)" = 3

# The checksum of the first download holds for the second.
list vocab plain "$big"
get --out learnt
rm learnt/big
cp root/text_0.json.gz root/big
get_fails 'expected, as at the first download \(learnt/checksums.json; remove its row to accept' \
    --out learnt
cp big root/big
get --out learnt
mkdir brought && cp big brought
get --out brought
check "what was there gets its row" grep -q "$(sum big)" brought/checksums.json
succeeds data get --sources s.json --list
check "no blank line: $(cat stdout)" test "$(grep -c '^ *$' stdout)" = 0

# Mirrors have other servers' files under their paths, and are tried before the address itself.
list vocab plain '{"name": "big", "urls": ["http://127.0.0.1:9/far/big"]}'
get --out mirrored --mirror "$base/status:404" --mirror "$base/plain/"
check "from the second mirror" cmp big mirrored/big
check "it is kept which" grep -q '/plain/far/big' mirrored/checksums.json
check "the first was asked" test "$(requests status:404/far/big)" = 1
get_fails "mirror begins with https:// or http://, unlike 'elsewhere'" --out m --mirror elsewhere

# A server with a wrong certificate is not tried again.
if command -v openssl >/dev/null; then
    openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -days 2 -keyout key.pem \
        -out cert.pem >/dev/null 2>&1
    cat key.pem cert.pem >both.pem
    mkfifo leash/tls
    python3 "$MUSEC_SOURCE/tests/tools/http_server.py" root tls.log both.pem <leash/tls >tls.port &
    pid=$!
    exec 8>leash/tls
    await $pid test -s tls.port
    printf '{"sets": [{"name": "set", "kind": "vocab", "files": [{"name": "big",
        "urls": ["https://127.0.0.1:%s/plain/big"]}]}]}\n' "$(cat tls.port)" >s.json
    get_fails 'https://127.0.0.1:[0-9]*/plain/big: .*certificate' --out tls --retry-delay 60000
    check "nothing of it is here" test ! -e tls/big -a ! -e tls/big.part
    exec 8>&-
else
    skip "no openssl"
fi

# ---- stopped and resumed ----

at=100000 # bytes come at first, and then nothing until it is stopped
for signal in KILL INT TERM; do
    at=$((at + 1))
    list vocab stall:$at:1 "$big"
    "$MUSEC" data get set --sources s.json --out "stop-$signal" --quiet 2>err &
    pid=$!
    check "$signal: some of it comes" await $pid test -s "stop-$signal/big.part"
    get_fails 'another process is writing there' --out "stop-$signal"
    kill -"$signal" $pid
    wait $pid 2>/dev/null
    code=$?
    check "$signal: nothing under the name" test ! -e "stop-$signal/big"
    if [ $signal != KILL ]; then
        check "$signal: exit 128 + its number, not $code" test $code = $((128 + $(kill -l $signal)))
        check "$signal: one line: $(cat err)" test "$(wc -l <err)" = 1
        check "$signal: it says how to go on" grep -q 'interrupted; [0-9]* bytes are kept' err
    fi
    had=$(stat -c %s "stop-$signal/big.part")
    get --out "stop-$signal"
    check "$signal: the right bytes" cmp big "stop-$signal/big"
    check "$signal: with a range" grep -q "^/stall:$at:1/big bytes=[1-9][0-9]*- \"" log
    check "$signal: of less than all ($had were there)" test "$had" -gt 0
done

# ---- shards ----

rows='{"part": "val", "name": "val_000000.bin", "urls": ["@/val_0.bin"]},
      {"part": "train", "name": "train_{000001..000003}.bin", "urls": ["@/train_{1..3}.bin"]}'
list shards plain "$rows"
get --out shards --limit-tokens 1500 --json
json_is shards=3 tokens=2000 val_tokens=700
check "the third was not asked for" test "$(requests plain/train_3.bin)" = 0
check "our names" cmp root/train_2.bin shards/train_000002.bin
get --out shards
prints '4 shards, 2900 training and 700 validation tokens'
check "no shard was fetched twice" test "$(requests plain/train_1.bin)" = 1
succeeds data inspect shards/val_000000.bin
list shards plain '{"name": "train_000001.bin", "urls": ["@/big"]}'
get_fails 'does not begin like a shard of tokens' --out noshards
check "neither file nor row is left" test -z "$(ls noshards)"

# ---- texts ----

if [ "$("$MUSEC" info --no-peak | grep -cE '^(utf8proc|zlib) +[0-9]')" = 2 ]; then
    rows='{"part": "val", "name": "text_9.json.gz", "urls": ["@/text_9.json.gz"], "limit_tokens": 500},
          {"part": "train", "name": "text_{0..2}.json.gz", "urls": ["@/text_{0..2}.json.gz"]}'
    vocab=r50k_base.tiktoken
    for i in 0 1 2 9; do
        succeeds tokenize "root/text_$i.json.gz" --vocab $vocab --out "want$i" --quiet
    done
    n0=$("$MUSEC" data inspect want0/train_000001.bin --json | python3 -c 'import json, sys
print(json.load(sys.stdin)["tokens"])')
    list jsonl cut:5000 "$rows"
    HOME=$PWD/nobody get_fails "vocabulary is neither in" --out text
    check "before anything was fetched" test ! -e text/raw
    get --out text --vocab $vocab --limit-tokens $((n0 + 10)) --json
    check "as many as were asked for" test "$(json tokens) $(json val_tokens)" = "$((n0 + 10)) 500"
    check "the first text" cmp want0/train_000001.bin text/train_000001.bin
    check "the third was not asked for" test "$(requests cut:5000/text_2.json.gz)" = 0
    check "texts are gone" test ! -e text/raw
    get --out text --vocab $vocab --limit-tokens 20
    check "less is there already" test "$(find text -name '*.bin' | wc -l)" = 3
    get --out text --vocab $vocab --keep-raw
    for i in 0 1 2; do
        check "text $i" cmp "want$i/train_000001.bin" "text/train_00000$((i + 1)).bin"
    done
    check "text 0 was fetched once" test "$(grep -c '^/cut:5000/text_0.json.gz - ' log)" = 1
    check "texts are kept" cmp root/text_2.json.gz text/raw/text_2.json.gz
    rm text/train_000002.bin
    get --out text --vocab $vocab
    check "a lost shard comes back" cmp want1/train_000001.bin text/train_000002.bin
    sed 's/ 256$/ x/; s/ 257$/ 256/; s/ x$/ 257/' $vocab >other.tiktoken # two ids change places
    rm text/train_000003.bin
    get_fails 'begun with another vocabulary' --out text --vocab other.tiktoken
    get --out text --vocab $vocab
    check "the right one helps" cmp want2/train_000001.bin text/train_000003.bin
    get_fails 'begun with --shard-tokens 100000000' --out text --vocab $vocab --shard-tokens 50
    get --out small --vocab $vocab --shard-tokens 5000
    check "shards in a row" test "$(tail -qc +1025 small/train_*.bin | sha256sum)" = \
        "$(tail -qc +1025 want[012]/train_000001.bin | sha256sum)"

    # With a smaller limit the files behind it are removed, and no others.
    all() { cat "$1"/val_*.bin "$1"/train_*.bin | sha256sum; }
    text() { get --vocab $vocab --shard-tokens 3000 --out "$@"; }
    same_as_fresh() { # same_as_fresh DIR LIMIT: as made from nothing
        rm -rf fresh
        text fresh --limit-tokens "$2"
        check "$1 has $(ls "$1")" test "$(ls "$1")" = "$(ls fresh)"
        check "$1: the bytes" test "$(all "$1")" = "$(all fresh)"
        check "$1: the account" cmp "$1/shards.json" fresh/shards.json
    }
    text all
    check "shards of one text" grep -q '"shards": [4-9]' all/shards.json
    for limit in 5000 $((n0 - 1)); do
        cp -r all less && touch less/notes.bin less/train_000099.bin
        rm less/train_000002.bin
        text less --limit-tokens $limit
        check "others stay" rm less/notes.bin less/train_000099.bin
        same_as_fresh less $limit
        text less
        check "and all come again" test "$(all less)" = "$(all all)"
        rm -r less
    done
    text half --limit-tokens "$n0" # killed when the shards were moved and not yet accounted for
    sed -i "s/\"tokens\": $n0,/\"tokens\": 0,/" half/shards.json
    check "being made" grep -q '"tokens": 0,' half/shards.json
    text half --limit-tokens 5000
    same_as_fresh half 5000

    # Unusable lines are skipped or refused; a file without any text is not kept, nor its checksum.
    zcat root/text_0.json.gz | sed '3s/.*/not JSON/' >root/bad.json
    printf '<html>\n' >root/page.json
    list jsonl plain '{"part": "train", "name": "bad.json", "urls": ["@/bad.json"]}'
    get_fails 'bad.json:3: is not JSON.*--skip-bad.* is kept: remove it to fetch it again' \
        --out bad --vocab $vocab
    check "no checksum of what was not used" test ! -e bad/checksums.json
    get --out bad --vocab $vocab --skip-bad
    prints '1 file \(1 was there\), .* 1 shard, .*, 1 line passed over'
    check "now there is one" grep -q "$(sum root/bad.json)" bad/checksums.json
    list jsonl plain '{"part": "train", "name": "page.json", "urls": ["@/page.json"]}'
    get_fails 'page.json:1: is not JSON.*; what came was dropped' --out page --vocab $vocab
    check "nothing of it is here" test -z "$(find page -name 'page.json' -o -name checksums.json)"

    # Parquet is read by a fake duckdb, which knows one statement.
    mkdir -p duck none
    cat >duck/duckdb <<'EOT'
#!/bin/sh
[ "$1" = --version ] && exit 0
files=$(printf '%s' "$2" | sed -n "s/^COPY (SELECT \"text\" FROM read_parquet('\(.*\)') WHERE \"text\" IS NOT NULL) TO '\(.*\)' (FORMAT JSON)$/\1|\2/p" | sed "s/''/'/g")
echo words of duckdb that are no lines
exec tail -c +5 "${files%|*}" >"${files#*|}"
EOT
    printf '#!/bin/sh\nexit 1\n' >none/python3
    chmod +x duck/duckdb none/python3
    cp none/python3 none/duckdb
    list parquet plain '{"part": "train", "name": "text_{0..2}.parquet", "urls": ["@/text_{0..2}.parquet"]}'
    PATH=$PWD/none:$PATH get_fails 'install duckdb .* or pyarrow' --out none/set --vocab $vocab
    check "before anything was fetched" test ! -e none/set/raw
    PATH=$PWD/duck:$PATH get --out "it's" --vocab $vocab
    for i in 0 1 2; do
        check "Parquet $i" cmp "want$i/train_000001.bin" "it's/train_00000$((i + 1)).bin"
    done
    mkdir -p stop
    reader() { # reader COMMANDS: a duckdb that does these instead of reading
        # shellcheck disable=SC2016  # for its own shell
        printf '#!/bin/sh\n[ "$1" = --version ] && exit 0\n%s\n' "$1" >stop/duckdb
        chmod +x stop/duckdb
    }
    stop_fails() { PATH=$PWD/stop:$PATH get_fails "$1" --out stopped --vocab $vocab; }
    # Ctrl-C goes to both programs; some readers are ended by it, some fail.
    # shellcheck disable=SC2016  # for the shell of the reader
    for last in 'exit 1' 'kill -INT $$'; do
        reader "kill -INT \$PPID; $last"
        PATH=$PWD/stop:$PATH fails 130 'stopped/raw/text_0.parquet: interrupted; the same command goes on' \
            data get set --sources s.json --retries 2 --quiet --out stopped --vocab $vocab
    done
    # shellcheck disable=SC2016  # the same
    reader 'kill -KILL $$'
    stop_fails 'duckdb was ended by a signal before it had read it$'
    reader 'exit 3'
    stop_fails 'duckdb could not read it \(exit 3\); .* is kept: remove it to fetch it again'
    PATH=$PWD/duck:$PATH get --out stopped --vocab $vocab
    check "Parquet after stops" cmp want2/train_000001.bin stopped/train_000003.bin
    cp none/duckdb . # from here on there is python3 alone
    mkdir -p fake/pyarrow
    : >fake/pyarrow/__init__.py
    cat >fake/pyarrow/parquet.py <<'EOT'
import json
class Batch(list):
    def column(self, n): return self
    def to_pylist(self): return self
class ParquetFile:
    def __init__(self, path): self.lines = open(path, encoding="utf-8").read()[4:].splitlines()
    def iter_batches(self, batch_size, columns):
        for line in self.lines: yield Batch([json.loads(line)[columns[0]], None])
EOT
    PYTHONPATH=$PWD/fake PATH=$PWD:$PATH get --out python --vocab $vocab
    for i in 0 1 2; do
        check "Parquet $i by python3" cmp "want$i/train_000001.bin" "python/train_00000$((i + 1)).bin"
    done
    check "the texts are gone" test ! -e python/raw
    if python3 -c 'import pyarrow.parquet' 2>/dev/null; then
        python3 -c 'import json, pyarrow, pyarrow.parquet as p
lines = [json.loads(line)["text"] for line in open("root/text_0.parquet").read()[4:].splitlines()]
p.write_table(pyarrow.table({"text": lines}), "root/real.parquet")'
        list parquet plain '{"part": "train", "name": "real.parquet", "urls": ["@/real.parquet"]}'
        PATH=$PWD:$PATH get --out real --vocab $vocab
        check "Parquet through pyarrow" cmp want0/train_000001.bin real/train_000001.bin
    else
        skip "no pyarrow"
    fi
else
    skip "no utf8proc or no zlib"
fi
exec 9>&-
finish
