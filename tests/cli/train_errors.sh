# train_errors.sh - runs that cannot begin: one clear line, exit 1 (2 for wrong usage) and no files; and
# checkpoints that are damaged or do not fit on the disk.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # tiny matrices: threads would be in each other's way

tiny=(train --quiet "${small_model[@]}" --batch 256 --val-tokens 512 --steps 20 --checkpoint-every 10)
# refuses CODE PATTERN ARGUMENT...: train fails so, and leaves no file.
refuses() { keeps_files fails "$1" "$2" "${tiny[@]}" "${@:3}"; }

# ---- wrong usage: exit 2 ---------------------------------------------------------------------------

refuses 2 'did you mean --layers' --layer 1
refuses 2 "--lr wants a number, not 'nan'" --lr nan
refuses 2 "--threshold wants D\\|rms:K.*, not 'rms:'" --threshold rms:
refuses 2 "--optimizer 'nosuch' is none of musec\\|" --optimizer nosuch
refuses 2 "--qk-norm 'maybe' is none of no\\|yes" --qk-norm maybe
refuses 2 '--lr and --set lr=0.1 give the same field' --set lr=0.1 --lr 0.3
refuses 2 '--max-doc and --set max_doc=32 give the same field' --set max_doc=32
refuses 2 '--data and --set data=a give the same field' --data b --set data=a
refuses 2 'takes no operand' more
refuses 2 'without --out and --config' --resume here --out there
refuses 2 '--preset and --optimizer are what --config says already' --config c.json --preset nano

# ---- values out of range: exit 1 -------------------------------------------------------------------

refuses 1 'there is no field "lyers"; did you mean "layers"\?' --set lyers=3
refuses 1 'there is no field "windowshort"; did you mean "window-short"\?' --set windowshort=3
refuses 1 'there is no field "colour"; musec train --help lists them' --set colour=red
refuses 1 '--lr is "-1"; it must be a number from 0' --lr -1
refuses 1 '--set: lr is "fast"; it must be a number' --set lr=fast
refuses 1 '--set: tied is "1"; it must be one of no\|yes' --set tied=1
refuses 1 '--set: vocab is ""; it must be a whole number from 0 to 65536' --set vocab=
refuses 1 '--layers is "65"' --layers 65
refuses 1 '--width is "0"; it must be a whole number from 1 to 1048576$' --width 0
refuses 1 '--weight-decay is "-1"; it must be a number from 0 to 1e9, or role=' --weight-decay -1
refuses 1 '--seed is "99999999999999999999"; it must be a whole number from 0 to 18446744073709551615' \
    --seed 99999999999999999999
refuses 1 '--steps is "999999999999999999999"' --steps 999999999999999999999
refuses 1 '--beta is "2"' --beta 2
refuses 1 '--seed is "-1"' --seed -1
refuses 1 'head is 15; .*even' --head 15
refuses 1 'heads \* head is 268435456' --head 16384 --heads 16384
refuses 1 'extension is 20; it must be below the 20 steps' --extension 20
refuses 1 'batch must be a multiple of its micro-batches.*batch 256, micro-batches 3' \
    --micro-batches 3
refuses 1 'more than 2\^26 tokens; raise micro_batches' --batch 99999999999999
refuses 1 'the factor on lr of layer.0.mlp.up is 0' --lr-up 0
refuses 1 'mtp is "0,1"' --mtp 0,1
refuses 1 'long-layers is "0,x"' --long-layers 0,x
refuses 1 'muon has ns-mode paper and exact only' --optimizer muon --ns-mode fast
refuses 1 'no device "abacus"' --device abacus
refuses 1 'cuda' --device cuda:1023
refuses 1 'stages: stage 1 lasts "soon"; that must be steps' --stages 'soon batch=64'
refuses 1 'stages: stage 1 lasts "110%"' --stages '110%'
refuses 1 'stages: "colour=red" of stage 2 is none of batch=N' --stages '5 lr=1; rest colour=red'
refuses 1 'stages: "window=3" of stage 1' --stages '5 window=3'
refuses 1 'stages: stage 2 is empty' --stages '5 lr=1;; rest'
refuses 1 'stage 2: its batch must be a multiple' --stages '5; rest batch=100 micro=7'
refuses 1 '--data is "caf.*"; it must be UTF-8' --data $'caf\xe9.txt'

# ---- data ------------------------------------------------------------------------------------------

# shard FILE MAGIC COUNT: a header that counts COUNT, and 3000 tokens of id 0x0141 (321)
shard() {
    {
        # shellcheck disable=SC2059  # the escapes are the point
        printf "$(printf '%08x%08x%08x' "$2" 1 "$3" | sed -E 's/(..)(..)(..)(..)/\\x\4\\x\3\\x\2\\x\1/g')"
        head -c 1012 /dev/zero
        yes | head -n 3000 | tr 'y\n' 'A\1'
    } >"$1"
}
refuses 1 'missing.txt: cannot read \(No such file' --data missing.txt
refuses 1 'missing.txt: cannot read \(No such file' --val-data missing.txt
mkdir empty
head -c 300 /dev/zero | tr '\0' 'x' >short.txt
refuses 1 'short.txt: cannot fill a micro-batch of 512 tokens: its largest piece has 270' \
    --data short.txt --batch 512
refuses 1 'short.txt: cannot fill a micro-batch of 512' --data short.txt --stages '5; rest batch=512'
refuses 1 'short.txt: cannot fill' --data short.txt --batch 512 --explain
shard magic.bin 20240521 3000
refuses 1 'magic.bin: is no shard of tokens: it begins with the number 20240521' --data magic.bin
shard cut.bin 20240520 4000
refuses 1 'cut.bin: truncated: its header counts 4000 tokens' --data cut.bin
head -c 100 cut.bin >stub.bin
refuses 1 'stub.bin: is no shard of tokens: it has 100 bytes' --data stub.bin
shard ids.bin 20240520 3000
refuses 1 'ids.bin: token 0 has the id 321, but ids must be below 320' --data ids.bin
succeeds "${tiny[@]}" --data ids.bin --vocab 384 --out ids
refuses 1 'builtin:x: the seed' --data builtin:x

# ---- output directories ----------------------------------------------------------------------------

echo 'not a directory' >file
refuses 1 'file/run: the directory cannot be created \(Not a directory' --out file/run
refuses 1 'a directory without a name' --out ''
refuses 1 'file: is not a directory; choose another name' --out file
[ -d /proc ] && refuses 1 '^musec train: /proc/' --out /proc/run
succeeds "${tiny[@]}" --out a
sums a
refuses 1 'a: there is a run already; resume it with --resume a, or choose another --out' --out a
untouched a "a run already"
refuses 1 'c.json: cannot open for reading \(No such file' --config c.json
echo '{"preset": "pico"}' >c.json
refuses 1 'c.json: no "preset" or no "optimizer"' --config c.json
echo '{"preset": "pico", "optimizer": "muon", "lr": true}' >c.json
refuses 1 'c.json: lr is "yes"; it must be a number' --config c.json
echo '{"preset": "pico", "optimizer": "muon", "lrr": "1"}' >c.json
refuses 1 'c.json: there is no field "lrr"' --config c.json
echo '{"preset": ' >c.json
refuses 1 'c.json:[0-9]: ' --config c.json

# ---- runs that cannot be resumed -------------------------------------------------------------------

resume=(train --quiet --resume)
fails 1 'missing: there is no such directory; the runs nearby are a, ids$' "${resume[@]}" missing
fails 1 'empty: is no run: a run directory has config.json, log.jsonl and checkpoint/' "${resume[@]}" empty
check "nothing is written there" test -z "$(ls empty)"
fails 1 'a/config.json says lr 0.2, not 0.3: a run cannot change that' "${resume[@]}" a --lr 0.3
fails 1 'a/config.json says layers 1, not 2' "${resume[@]}" a --layers 2
fails 1 'a/config.json says batch 256, not 512' "${resume[@]}" a --set batch=512
fails 1 'a/config.json says seed 0, not 1' "${resume[@]}" a --seed 1
untouched a "refused"
# an edited config.json, which its checkpoints contradict
cp -r a edited
sed -i 's/"mlp": 64/"mlp": 128/' edited/config.json
fails 1 'step_00000020/state.json says mlp 64, not 128' "${resume[@]}" edited
cp -r a torn_log
sed -i '3s/.*/what is this/' torn_log/log.jsonl
fails 1 'torn_log/log.jsonl: line 3 is damaged' "${resume[@]}" torn_log

# ---- damaged checkpoints ---------------------------------------------------------------------------

# flip FILE OFFSET: changes one bit of a byte.
flip() {
    local byte
    byte=$(od -An -t u1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059  # the escapes are the point
    printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
for f in model.safetensors optim.safetensors state.json; do
    rm -rf damaged
    cp -r a damaged
    at=damaged/checkpoint/step_00000020
    bytes=$(wc -c <$at/$f)
    flip $at/$f $((bytes / 2))
    warns "^warning: 1 damaged, going back to step_00000010: $at/$f: damaged: .*sha256" \
        "${resume[@]}" damaged
    check "$f: with one line" test "$(wc -l <stderr)" -eq 1
    check "$f: the damaged one is set aside" test -d $at.damaged
    for g in model.safetensors optim.safetensors state.json; do
        check "$f: and makes the same $g again" cmp a/checkpoint/step_00000020/$g $at/$g
    done
    for step in 10 20; do
        at=damaged/checkpoint/step_000000$step/$f
        flip $at $(($(wc -c <$at) - 1))
    done
    sums damaged
    fails 1 "damaged/checkpoint/step_00000020/$f: damaged: .* \\(of 2 checkpoints .* none is whole\\)" \
        "${resume[@]}" damaged
    untouched damaged "$f"
done
cp -r a short
head -c 1000 a/checkpoint/step_00000020/model.safetensors >short/checkpoint/step_00000020/model.safetensors
rm -r short/checkpoint/step_00000010
fails 1 'model.safetensors: damaged: 1000 bytes instead of' "${resume[@]}" short
rm short/checkpoint/step_00000020/model.safetensors
fails 1 'model.safetensors: cannot read' "${resume[@]}" short

# ---- full disks ------------------------------------------------------------------------------------

more=("${tiny[@]}" --steps 60 --keep 0)
succeeds "${more[@]}" --out whole
# whole_still DIR: its checkpoints are those of the run with enough space, and there are no parts.
whole_still() {
    local c
    check "$1: some checkpoint" test -e "$1/checkpoint/step_00000010/state.json"
    for c in "$1"/checkpoint/step_*; do
        check "$c is whole" diff -r "$c" "whole/checkpoint/${c##*/}"
    done
    check "$1: no part" test -z "$(find "$1" -name '*.part.*')"
}
# A limit on the size of files: model.safetensors passes, optim.safetensors does not.
cp -r whole limited
rm -r limited/checkpoint/step_000000[2-6]0
(
    trap '' XFSZ
    ulimit -f 150 || exit 77 # units of 1024 bytes
    exec "$MUSEC" "${resume[@]}" limited >stdout 2>stderr
)
code=$?
if [ $code -eq 77 ]; then
    skip "the size of files cannot be limited here"
else
    check "a file too large: exit 1" test $code -eq 1
    check "a file too large: one line" test "$(wc -l <stderr)" -eq 1
    check "a file too large: says which" grep -q 'limited/.*optim.safetensors.*File too large' stderr
    whole_still limited
    succeeds "${resume[@]}" limited
    whole_still limited
fi
mkdir disk
if mount -t tmpfs -o size=900k tmpfs disk 2>/dev/null; then
    trap 'umount disk' EXIT
    fails 1 'disk/full/.*No space left on device.*free some space' "${more[@]}" --out disk/full
    whole_still disk/full
    mount -o remount,size=8m disk
    succeeds "${resume[@]}" disk/full
    whole_still disk/full
    check "and it is complete" cmp whole/checkpoint/step_00000060/state.json \
        disk/full/checkpoint/step_00000060/state.json
    rm -r disk/full
    head -c 7950k /dev/zero >disk/fill
    head -c 1m /dev/zero >>disk/fill 2>/dev/null # to the last byte
    fails 1 'No space left' "${more[@]}" --out disk/none
    check "no run, no directory" test ! -e disk/none
    umount disk
    trap - EXIT
else
    skip "no small disk can be mounted here: a full one while checkpointing"
fi

# ---- ranks that cannot meet --------------------------------------------------------------------------

# Its descriptors end behind the one at which it listens.
cat >rank <<P
#!$(command -v python3)
import os, resource, sys
os.environ.update(RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="9")
os.closerange(3, 1024)
resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
os.execv("$MUSEC", ["$MUSEC"] + sys.argv[1:])
P
chmod +x rank
MUSEC=$PWD/rank
fails 1 'rank 0 cannot be reached at 127.0.0.1, port 9: Too many open files' \
    train --comm tcp --out none --steps 2
finish
