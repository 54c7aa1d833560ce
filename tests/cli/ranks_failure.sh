# ranks_failure.sh - a rank that fails ends the job on all of them: within a minute, with one reason, with
# an exit status, and with a whole checkpoint to go on from.
#
# MUSEC_TEST_REPEATS=20 repeats every failure so often.  MUSEC_TEST_DEVICE=cuda computes there,
# MUSEC_TEST_LAUNCHER=plain starts ranks without MPI (tests/tools/on_ranks), and MUSEC_TEST_ONLY=ends tests
# ranks that are killed, stopped or interrupted alone.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
repeats=${MUSEC_TEST_REPEATS:-1}
on_ranks=$MUSEC_SOURCE/tests/tools/on_ranks device=${MUSEC_TEST_DEVICE:-cpu}

"$on_ranks" 1 true >reason 2>&1
if [ $? -eq 77 ]; then
    skip "$(sed 's/^skipped: //' reason)"
    finish
fi

tiny=(--layers 1 --width 32 --heads 2 --head 16 --mlp 64 --batch 192 --micro-batches 3 --max-doc 64
    --val-tokens 64 --val-every 0 --report-every 0 --cooldown 0 --device "$device")
tiny+=(--comm "${MUSEC_TEST_COMM:-$([ "${MUSEC_TEST_LAUNCHER:-mpirun}" = plain ] && echo tcp || echo auto)}")
endless=("${tiny[@]}" --steps 1000000 --checkpoint-every 5 --keep 3)

# start.py RANKS RANK SIGNAL ARGUMENT...: starts musec train into `run`, sends one rank the signal once
# there are two checkpoints, and prints the exit status, the seconds that took, and how many processes of
# the job are left.  SIGNAL 0: waits for the end.
cat >start.py <<'P2'
import os, signal, subprocess, sys, time
ranks, victim, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
token = "MUSEC_TEST_JOB=%d.%f" % (os.getpid(), time.time())
env = dict([token.split("=")], **os.environ)
job = subprocess.Popen([os.environ["MUSEC_SOURCE"] + "/tests/tools/on_ranks", str(ranks), *sys.argv[4:]],
                       stdout=open("stdout", "w"), stderr=open("stderr", "w"), env=env)
def processes():
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            lines = open("/proc/%s/environ" % pid, "rb").read().decode("latin-1").split("\0")
            state = open("/proc/%s/stat" % pid).read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        rank = [l.split("=")[1] for l in lines if l.startswith(("OMPI_COMM_WORLD_RANK=", "PMI_RANK=", "RANK="))]
        if token in lines and rank and state != "Z":
            found[rank[0]] = int(pid)
    return found
def saved():
    try: return len([n for n in os.listdir("run/checkpoint") if n.startswith("step_")])
    except OSError: return 0
if name != "0":
    while job.poll() is None and saved() < 2: time.sleep(0.02)
    os.kill(processes()[victim], getattr(signal, name))
begin = time.time()
code = job.wait(900)
seconds = time.time() - begin
while processes() and time.time() - begin < 60: time.sleep(0.1)
print(code, int(seconds), len(processes()))
P2

# ends WHAT REASON COUNT ARGUMENT...: start.py's job ends as it should; COUNT lines have the reason.
ends() {
    local what=$1 reason=$2 count=$3 code seconds left
    shift 3
    read -r code seconds left < <(python3 start.py "$@")
    check "$what: exit $code" test "$code" -ne 0
    check "$what: $seconds s" test "$seconds" -lt 60
    check "$what: $left processes left" test "$left" -eq 0
    check "$what: one reason: $(cat stderr)" test "$(grep -Ec "$reason" stderr)" -eq "$count"
}
# whole: the newest checkpoint of `run` can be gone on from.
whole() {
    run train --resume run --steps "$(($(find run/checkpoint -maxdepth 1 -name 'step_*' |
        sed 's/.*step_0*//' | sort -n | tail -1) + 1))" --quiet
    check "$1: the checkpoint is whole: $(cat stderr)" test "$code" -eq 0
}

for ((i = 0; i < repeats; i++)); do
    for victim in 0 2; do # who starts ranks says that one was killed
        rm -rf run
        ends "rank $victim killed" 'signal 9|^musec train:' 1 3 "$victim" SIGKILL "$MUSEC" train \
            "${endless[@]}" --out run --quiet
        whole "rank $victim killed"
    done
    rm -rf run
    ends "rank 1 stopped" '^musec train: (rank 2: )?rank 1 has not been heard of' 1 3 1 SIGSTOP "$MUSEC" train \
        "${endless[@]}" --out run --quiet
    whole "rank 1 stopped"
done
if [ "$repeats" -gt 1 ]; then
    for ((i = 0; i < repeats; i++)); do
        rm -rf run
        ends "rank 0 stopped" '^musec train: rank 1: rank 0 has not been heard of' 1 3 0 SIGSTOP \
            "$MUSEC" train "${endless[@]}" --out run --quiet
        whole "rank 0 stopped"
    done
fi

# A signal to one rank stops all of them after a step, with a checkpoint of it.
rm -rf run
read -r code _ left < <(python3 start.py 3 2 SIGTERM "$MUSEC" train "${endless[@]}" --out run --quiet)
check "a signal to one rank: exit $code" test "$code" -eq 143
check "a signal to one rank: $left processes left" test "$left" -eq 0
prints '^interrupted after [0-9]+ steps'
check "a signal to one rank: the summary" summary run status '"interrupted"'
made=$(sed -n 's/^interrupted after \([0-9]*\) steps.*/\1/p' stdout)
check "a signal to one rank: a checkpoint of step $made" test -e "$(checkpoint run "$made")"
whole "a signal to one rank"

if [ "${MUSEC_TEST_ONLY-}" = ends ]; then finish; fi

# ---- what one rank sees ------------------------------------------------------------------------------

# in_rooms.sh LIMIT ARGUMENT...: each rank runs in a directory of its own, where the shards are; LIMIT:
# the largest file that rank 0 may write, in KiB.
cat >in_rooms.sh <<'P2'
#!/usr/bin/env bash
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}}
cd "room$rank" || exit 1
if [ "$rank" -eq 0 ] && [ "$1" -gt 0 ]; then
    trap '' XFSZ
    ulimit -f "$1"
fi
exec "$MUSEC" "${@:2}"
P2
chmod +x in_rooms.sh
head -c 60000 /dev/zero | tr '\0' 'a' >text.txt
run tokenize text.txt --tokenizer byte --out shards --shard-tokens 10000 --val-tokens 1000
check "shards" test "$(find shards -name 'train_*.bin' | wc -l)" -ge 3
here=$PWD
rooms() {
    rm -rf run room*
    for r in 0 1 2; do
        mkdir "room$r"
        cp -r shards "room$r"
    done
}

for ((i = 0; i < repeats; i++)); do
    rooms
    rm "$(find room1/shards -name 'train_*.bin' | sort | tail -1)"
    ends "other data on one rank" '^musec train: rank 1: the data that this rank reads are not' 1 3 1 0 \
        ./in_rooms.sh 0 train "${tiny[@]}" --data shards --steps 3 --out "$here/run" --quiet
    check "other data: no run" test ! -e run/config.json

    # The last shard is opened when its turn comes.
    rooms
    bad=$(find room2/shards -name 'train_*.bin' | sort | tail -1)
    (
        until [ -e run/checkpoint/step_00000010 ]; do sleep 0.02; done
        : >"$bad"
    ) &
    ends "a shard of one rank becomes unreadable" '^musec train: rank 2: .*train_.*bin' 1 3 1 0 \
        ./in_rooms.sh 0 train "${endless[@]}" --keep 0 --data shards --out "$here/run" --quiet
    wait
    check "an unreadable shard: a checkpoint" test -e run/checkpoint

    rooms
    # model.safetensors has 5 MB, optim.safetensors twice that; MPI's own files have less.
    OMPI_MCA_btl=self,tcp ends "a full disk on rank 0" \
        '^musec train: .*optim.safetensors.*File too large' 1 3 1 0 \
        ./in_rooms.sh 7000 train "${tiny[@]}" --width 256 --heads 4 --head 64 --mlp 1536 --steps 60 \
        --optimizer adamw --checkpoint-every 2 --out "$here/run" --quiet
    check "a full disk: no part is left" test -z "$(find run -name '*.part.*')"
done

# ---- numbers that are not finite ---------------------------------------------------------------------

# diverged WHAT REASON CODE SECONDS LEFT: the job has ended on all ranks, with one reason.
diverged() {
    check "$1: exit $3" test "$3" -eq 3
    check "$1: $4 s" test "$4" -lt 60
    check "$1: $5 processes left" test "$5" -eq 0
    check "$1: one reason: $(cat stdout)" test "$(grep -Ec "^diverged: $2" stdout)" -eq 1
    check "$1: no failure: $(cat stderr)" test "$(grep -c '^musec' stderr)" -eq 0
    check "$1: the summary" summary run status '"diverged"'
}

# The processor of one rank computes a NaN, in the first pass or in a later step.  Rank 0 has made some
# products before, to time the optimizer.
cat >with_nan.sh <<'P2'
#!/usr/bin/env bash
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != "$1" ] || export LD_PRELOAD=$2 MUSEC_TEST_NAN_AT=$3
exec "$MUSEC" "${@:4}"
P2
chmod +x with_nan.sh
library=$(dirname "$MUSEC")/tests/libnan_product.so
if [ -e "$library" ]; then
    for ((i = 0; i < repeats; i++)); do
        for at in "0 700" "2 3" "1 700"; do # rank, product
            rm -rf run
            # shellcheck disable=SC2086  # two words
            read -r code seconds left < <(python3 start.py 3 2 0 ./with_nan.sh ${at% *} "$library" ${at#* } \
                train "${tiny[@]}" --steps 5000 --out run --quiet)
            diverged "a NaN on rank ${at% *}" '.*(not finite|holds a NaN)' "$code" "$seconds" "$left"
        done
    done
else
    skip "no library makes products NaN in this build"
fi

# Heavy-ball momentum with a tiny beta overflows with any gradient, and does so on the ranks that own
# matrices.  That is a divergence, as in one process: a result.
diverges=("${tiny[@]}" --steps 9 --optimizer sgdm --momentum-form heavy-ball --beta 1e-43
    --momentum-warmup 2 --momentum-from 0.5)
rm -rf run one
exits 0 train "${diverges[@]}" --out one --quiet
mv stdout one.stdout
read -r code seconds left < <(python3 start.py 3 2 0 "$MUSEC" train "${diverges[@]}" --out run --quiet)
diverged "an overflow" 'step 3: the gradient of' "$code" "$seconds" "$left"
check "divergence: the same one" cmp <(sed 's/, [0-9.]* s:/:/; s/one$/run/' one.stdout) \
    <(sed 's/, [0-9.]* s:/:/' stdout)
check "divergence: the log" cmp <(untimed one) <(untimed run)
finish
