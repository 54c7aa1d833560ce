# tokenize.sh - musec tokenize and musec data inspect: inputs of every kind, interruptions, full disks.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

eot=$'\n<|endoftext|>\n'
byte() { succeeds tokenize "$@" --tokenizer byte; }
same_shards() { # same_shards A B: the same files, byte for byte
    local f
    check "$1 and $2 have the same files" test "$(ls "$1")" = "$(ls "$2")"
    for f in "$1"/*.bin; do check "$f" cmp "$f" "$2/${f##*/}"; done
}
ids() { # ids SHARD: its tokens, on one line
    tail -c +1025 "$1" | od -An -v -t u2 -w2 | awk '{printf "%s%s", s, $1; s = " "}'
}

# ---- kinds of input ----

printf 'ab%sc%s' "$eot" "$eot" >a.txt
printf '{"text": "ab"}\n{"id": 1, "text": "c"}\n' >a.jsonl
byte a.txt --out txt
prints '^txt: 1 shard, 5 tokens, 2 documents of 0.0 MB'
check "its tokens" test "$(ids txt/train_000001.bin)" = "256 97 98 256 99"
for packing in gzip:gz:zlib zstd:zst:zstd xz:xz:liblzma; do
    IFS=: read -r pack suffix library <<<"$packing"
    if ! command -v "$pack" >/dev/null; then
        skip "no $pack"
        continue
    fi
    "$pack" -c a.txt >"b.txt.$suffix"
    "$pack" -c a.jsonl >"b.json.$suffix"
    if ! "$MUSEC" info --no-peak | grep -Eq "^$library +[0-9]"; then
        fails 1 "b.txt.$suffix: is packed by $pack.*install the package" \
            tokenize "b.txt.$suffix" --tokenizer byte --out "of-$suffix"
        continue
    fi
    for f in "b.txt.$suffix" "b.json.$suffix"; do
        byte "$f" --out "of-$f"
        same_shards txt "of-$f"
        head -c -3 "$f" >"cut-$f"
        fails 1 "cut-$f: truncated.*at byte" tokenize "cut-$f" --tokenizer byte --out "of-cut-$f"
    done
done
byte a.jsonl --out jsonl
same_shards txt jsonl
"$MUSEC" tokenize - --tokenizer byte --out stdin-text <a.txt >stdout 2>stderr
same_shards txt stdin-text
"$MUSEC" tokenize - --tokenizer byte --out stdin-jsonl <a.jsonl >stdout 2>stderr
same_shards txt stdin-jsonl
"$MUSEC" tokenize - --tokenizer byte --format text --split file --out stdin-file <a.jsonl >stdout
check "JSON as text" test "$(ids stdin-file/train_000001.bin | wc -w)" -eq $(($(wc -c <a.jsonl) + 1))
mkdir -p tree/sub && cp a.txt tree/sub/z.txt && cp a.jsonl tree/a.json && echo no >tree/readme.md
byte tree --out of-tree
check "directories" test "$(ids of-tree/train_000001.bin)" = \
    "256 97 98 256 99 256 97 98 256 99"
printf 'a\n\nb\n\nc' >blank.txt
byte blank.txt --split blank --out blank
check "--split blank" test "$(ids blank/train_000001.bin)" = "256 97 10 10 256 98 10 10 256 99"
byte blank.txt --split file --out file --val-tokens 3 --shard-tokens 4
check "--split file" test "$(ids file/val_000000.bin) $(ids file/train_000001.bin) \
$(ids file/train_000002.bin)" = "256 97 10 10 98 10 10 99"
run tokenize a.txt --tokenizer byte --out val-only --val-tokens 5
check "no training shards" grep -q 'no training shards: --val-tokens 5 took all 5 tokens' stderr
check "val alone" test "$code $(ls val-only)" = "0 $(printf 'manifest.json\nval_000000.bin')"
mkdir loop && cp a.txt loop && ln -s . loop/self
fails 1 'loop/self: leads back to a directory above it' tokenize loop --tokenizer byte --out of-loop
check "nothing came of the loop" test ! -e of-loop
printf '{"body": "x"}' >body.jsonl
byte body.jsonl --field body --out body

# ---- failures ----

fails 2 '--out DIR' tokenize a.txt --tokenizer byte
fails 2 'wants IN' tokenize --out x
fails 2 '--verify' tokenize a.txt --tokenizer byte --out x --verify
fails 2 "--split 'line' is none of" tokenize a.txt --out x --split line
fails 2 'tokenizer byte has none' tokenize a.txt --tokenizer byte --vocab x --out x
fails 1 'none.txt: cannot read \(No such file' tokenize none.txt --tokenizer byte --out x
fails 1 'body.jsonl:1: has no field "text"; it has body' tokenize body.jsonl --tokenizer byte --out x
fails 1 '--threads' tokenize a.txt --tokenizer byte --out y --threads 1000
fails 1 'nowhere' tokenize a.txt --vocab nowhere --out y
check "nothing came of that" test ! -e y
printf '{"text": "a"}\nnot\n{"text": 5}\n{"text": "b"}\n' >bad.jsonl
fails 1 'bad.jsonl:2: is not JSON' tokenize bad.jsonl --tokenizer byte --out bad
byte bad.jsonl --skip-bad --out skipped
prints ', 2 lines passed over'
check "the rest" test "$(ids skipped/train_000001.bin)" = "256 97 256 98"
printf '{"text": "%s"}\n' "$(head -c 5000 /dev/zero | tr '\0' x)" >long.jsonl
fails 1 'long.jsonl:1: is longer than 4000 bytes; allow more with --max-document' \
    tokenize long.jsonl --tokenizer byte --out long --max-document 4000
: >empty.txt
fails 1 'there is no document' tokenize empty.txt --tokenizer byte --out empty

# ---- other files in the directory ----

theirs='train_000001.bin.part.json train_000002.bin.part train_000003.bin.part.old
    precious.bin.part.old precious.bin.part.12 train_000004.bin.part. train_000004.bin.part.1.
    train_000004.bin.part.1.2.3 train_x.bin.part.1 manifest.json.part.json notes.part.1'
left='train_000001.bin.part.1 train_000002.bin.part.12.3 val_000000.bin.part.7 manifest.json.part.7.99'
mkdir others
# shellcheck disable=SC2086  # the words are names
(cd others && touch shard.bin $theirs $left)
was=$(ls others)
fails 1 'others: has shard.bin and no manifest.json' tokenize a.txt --tokenizer byte --out others
check "a refused run removes nothing" test "$(ls others)" = "$was"
rm others/shard.bin
byte a.txt --out others
for f in $theirs; do check "files of others stay" test -e "others/$f"; done
for f in $left; do check "parts of killed runs are removed" test ! -e "others/$f"; done

# ---- the same bytes with any threads and interruptions ----

awk 'BEGIN {for (i = 0; i < 60000; i++) printf "{\"id\": %d, \"text\": \"line %d of %d: %s\"}\n",
    i, i, i * 7919 % 65521, substr("the quick brown fox jumps over the lazy dog", 1 + i % 40)}' >web.jsonl
byte web.jsonl --out t1 --threads 1 --shard-tokens 300000 --val-tokens 12345
for t in 2 7; do
    byte web.jsonl --out t$t --threads $t --shard-tokens 300000 --val-tokens 12345
    same_shards t1 t$t
    check "manifests" cmp t1/manifest.json t$t/manifest.json
done
warns 'complete already; nothing was done' \
    tokenize web.jsonl --tokenizer byte --out t1 --shard-tokens 300000 --val-tokens 12345 --resume
fails 1 'is complete; write elsewhere' tokenize web.jsonl --tokenizer byte --out t1
fails 1 'begun with shard_tokens 300000, not 100000000' \
    tokenize web.jsonl --tokenizer byte --out t1 --val-tokens 12345 --resume

begin() { # begin DIR: a run that has read two thirds of its input and waits for the rest
    "$MUSEC" tokenize - --tokenizer byte --out "$1" --shard-tokens 300000 --val-tokens 12345 \
        < <(head -c $(($(wc -c <web.jsonl) * 2 / 3)) web.jsonl
            exec tail -f /dev/null --pid=$$ 2>/dev/null) >stdout 2>stderr &
    pid=$!
}
begin killed
check "the shards come" await $pid test -e killed/train_000003.bin
fails 1 'killed: another process is writing there' tokenize web.jsonl --tokenizer byte --out killed \
    --shard-tokens 300000 --val-tokens 12345 --resume
kill -9 $pid
wait $pid 2>/dev/null
check "a killed run has its manifest" grep -q '"complete": false' killed/manifest.json
fails 1 'not complete; write elsewhere, or go on with --resume' tokenize - --tokenizer byte --out killed
"$MUSEC" tokenize - --tokenizer byte --out killed --shard-tokens 300000 --val-tokens 12345 --resume \
    <web.jsonl >stdout 2>stderr
check "it goes on" grep -q ': [0-9]* shards,' stdout
same_shards t1 killed

begin stopped
check "some shards come" await $pid test -e stopped/train_000002.bin
kill -TERM $pid
wait $pid
check "an interrupted run exits with 128 and the signal" test $? -eq 143
check "and says how to go on" grep -q 'interrupted with [0-9]* whole shards in stopped; go on with --resume' stderr
check "and leaves no part" test -z "$(find stopped -name '*.part.*')"
"$MUSEC" tokenize - --tokenizer byte --out stopped --shard-tokens 300000 --val-tokens 12345 --resume \
    --verify <web.jsonl >stdout 2>stderr
same_shards t1 stopped

# of a document that the limit cuts, the bytes in the shards count
succeeds tokenize web.jsonl --tokenizer byte --limit-tokens 5 --out cut --quiet
prints '^cut: 1 shard, 5 tokens, 1 document of 0.0 MB \(0.80 bytes a token\)'

# A disk that is full in the second shard: 512-byte blocks, 1024 bytes in some shells.
(ulimit -f 900; exec "$MUSEC" tokenize web.jsonl --tokenizer byte --out full --val-tokens 12345 \
    --shard-tokens 3000000) >stdout 2>stderr
check "a full disk exits 1" test $? -eq 1
check "and is named" grep -Eq '^musec tokenize: full/train_000001.bin: cannot write' stderr
check "the shard before is kept" cmp full/val_000000.bin t1/val_000000.bin
check "and no other" test "$(ls full)" = "$(printf 'manifest.json\nval_000000.bin')"
byte web.jsonl --out full --val-tokens 12345 --shard-tokens 3000000 --resume

# Memory does not grow with the input: 80 MB within an address space of 400 MB, most of it stacks.
if ! "$MUSEC" info --no-peak | grep -q sanitizers; then
    (ulimit -v 409600; for _ in $(seq 20); do cat web.jsonl; done | OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
        "$MUSEC" tokenize - --tokenizer byte --out lots --threads 2) >stdout 2>stderr
    check "80 MB pass through little memory: $(cat stderr)" grep -q '^lots: ' stdout
fi

# ---- looking into shards ----

succeeds data inspect txt/train_000001.bin
prints '^header +20240520, version 1, 5 tokens' '^tokenizer +byte, documents start with 256'
prints '^documents +2$' '^lengths +shortest 1, mean 1.5, longest 2 tokens' '^ *2-3 +1 +#+$'
prints '^document 0, 2 tokens$' '^ab$'
succeeds data inspect t1/train_000001.bin --sample 0
prints '^before +[0-9]+ tokens of a document that began elsewhere'
HOME=$PWD succeeds data inspect txt/train_000001.bin --tokenizer gpt2
prints '^documents +0$'
printf 'esc \033[31m \377 end' >esc.txt
byte esc.txt --out esc
succeeds data inspect esc/train_000001.bin
prints 'esc \\x1b\[31m \\xff end'
fails 1 'is no shard of tokens' data inspect web.jsonl
fails 1 '--sample must be' data inspect txt/train_000001.bin --sample -1
fails 2 'wants inspect' data
fails 2 "not 'look'" data look
fails 2 'SHARD' data inspect
succeeds data inspect --help
prints '^Usage: musec data inspect'

succeeds data inspect txt/train_000001.bin --json
json_is documents=2 sample.0.text=ab beyond=0
byte a.txt --out json --json
json_is tokens=5 complete=true

# ---- GPT-2's tokens, against those of other programs ----

if [ -d "$shared_data/gpt2" ] && "$MUSEC" info --no-peak | grep -Eq '^utf8proc +[0-9]'; then
    tsv=$shared_data/text/expected-tokens.tsv
    for f in val-c4.txt val-fineweb.txt train-c4.txt.xz; do
        for t in 1 2 7; do
            rm -rf gpt2
            succeeds tokenize "$shared_data/text/$f" --vocab "$shared_data/gpt2" --out gpt2 --threads $t
            check "$f with $t threads" test "$(sha256sum <gpt2/train_000001.bin | cut -d' ' -f1)" = \
                "$(awk -v f="${f%.xz}" '$1 == f {print $7}' "$tsv")"
        done
    done
    succeeds tokenize "$shared_data/text/tinyshakespeare.txt" --vocab "$shared_data/gpt2" --out tiny --split blank \
        --val-tokens 32768
    check "llm.c's val" cmp tiny/val_000000.bin "$shared_data/text/tiny_shakespeare_val.bin"
    check "llm.c's train" cmp tiny/train_000001.bin "$shared_data/text/tiny_shakespeare_train.bin"
    succeeds data inspect tiny/val_000000.bin --vocab "$shared_data/gpt2"
    prints '^First Citizen:$'
    fails 1 'tokenizer' tokenize "$shared_data/text/tinyshakespeare.txt" --tokenizer byte --out tiny \
        --split blank --val-tokens 32768 --resume
else
    skip "GPT-2's tokens: no shared data, or no utf8proc"
fi
finish
