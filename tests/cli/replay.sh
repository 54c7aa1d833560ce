# replay.sh - optimizers on recorded gradients: the golden trajectories through .npy files, and invalid
# input.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

# ---- by hand: two steps of plain averaging on 1x2, beta 1/2, lr 1 ---------------------------------

npy w.npy '<f8' '(1, 2)' False "$f8_4$f8_0"
npy g.npy '<f8' '(2, 1, 2)' False "$f8_1$f8_2$f8_3$f8_4"
replay=(replay --optimizer sgdm --beta 0.5 --lr 1 --w0 w.npy)
succeeds "${replay[@]}" --grads g.npy --out out.npy --momentum-out m.npy
prints '^sgdm, 2 steps on 1x2 f64: \|W\|2 5\.09902, \|W\|F 5\.09902$'
holds out.npy f8 0 '3 -2 1 -5' # M = (1, 2), then (2, 3)
holds m.npy f8 0 '1 2 2 3'
succeeds "${replay[@]}" --grads g.npy --out out.npy --momentum-out m.npy --momentum-init zero
holds m.npy f8 0 '0.5 1 1.75 2.5'
succeeds "${replay[@]}" --grads g.npy --out out.npy --dtype f32
holds out.npy f4 0 '3 -2 1 -5'
prints 'f32'
succeeds "${replay[@]}" --grads g.npy --out out.npy --weight-decay matrix=0.5,qk=7
holds out.npy f8 0 '1 -2 -1.5 -4'
succeeds "${replay[@]}" --grads g.npy --out out.npy --role mlp --weight-decay matrix=0.5
holds out.npy f8 0 '3 -2 1 -5'
succeeds "${replay[@]}" --grads g.npy --out out.npy --report-every 1
check "a row for every step" test "$(wc -l <stdout)" -eq 4
# embed, head, vector: AdamW, whose first step is lr times the gradient's sign
for role in embed head vector; do
    succeeds "${replay[@]}" --grads g.npy --out out.npy --momentum-out m.npy --role $role --aux-lr 0.5
    check "role $role" near 1e-7 "$(numbers out.npy f8 4 | cut -d' ' -f1,2)" '3.5 -0.5'
done
# state written after one step and read again: the same as without a break
npy g1.npy '<f8' '(1, 1, 2)' False "$f8_1$f8_2"
npy g2.npy '<f8' '(1, 1, 2)' False "$f8_3$f8_4"
npy w1.npy '<f8' '(1, 2)' False "$f8_3"'\0\0\0\0\0\0\0\xc0' # 3 -2
succeeds "${replay[@]}" --grads g1.npy --out out.npy --state-out state.safetensors
succeeds "${replay[@]/w.npy/w1.npy}" --grads g2.npy --out out.npy --state-in state.safetensors
holds out.npy f8 0 '1 -5'
cp state.safetensors own.safetensors
succeeds "${replay[@]/w.npy/w1.npy}" --grads g2.npy --out out.npy --state-in own.safetensors \
    --state-out own.safetensors
check "a state may be replaced by its successor" test -n "$(cmp state.safetensors own.safetensors)"
fails 1 'state.safetensors: its optimizer is sgdm' replay --optimizer muon --w0 w.npy --grads g1.npy \
    --out other.npy --state-in state.safetensors
fails 1 'g1.npy: ' "${replay[@]}" --grads g1.npy --out other.npy --state-in g1.npy
check "nothing half-done" test ! -e other.npy
if python3 -c 'import safetensors' 2>/dev/null; then
    check "the safetensors package reads the state" python3 -c '
from safetensors import safe_open
with safe_open("state.safetensors", "np") as f:
    assert f.metadata()["optimizer"] == "sgdm" and f.get_tensor("W/0/momentum").tolist() == [[1, 2]]'
else
    skip "the safetensors package is not here"
fi
if [ -e /dev/stdout ]; then
    "$MUSEC" "${replay[@]}" --grads g.npy --out /dev/stdout 2>stderr | cat >piped.npy
    holds piped.npy f8 0 '3 -2 1 -5'
    check "the summary stands aside" grep -q '^sgdm, 2 steps' stderr
fi

# --explain prints and stops
rm -f out.npy
succeeds replay --optimizer soft-musec --threshold rms:0.5 --w0 w.npy --explain
prints 'soft-musec' 'rms:0\.5'
# for a mode, the settings that it reads
prints '^soft-musec: clip the momentum smoothly at D' '^  ns-mode paper, ns-iters 5$'
succeeds replay --optimizer soft-musec --ns-mode accurate --beta 0.1 --w0 w.npy --explain
prints '^  ns-mode accurate, ns-tol 0.001$'
succeeds replay --optimizer muon --w0 w.npy --explain
prints '^  ns-mode paper, ns-iters 5, ns-coeffs keller$'
succeeds replay --optimizer muon --ns-mode exact --w0 w.npy --explain
prints '^  ns-mode exact$'
succeeds "${replay[@]}" --grads g.npy --out out.npy --explain
check "--explain writes nothing" test ! -e out.npy
succeeds "${replay[@]}" --explain --json
check "--explain --json describes" test -n "$(json description)"
succeeds "${replay[@]}" --grads g.npy --out out.npy --json
json_is steps=2
check "json: norm" test "$(json norm2 | cut -c1-7)" = 5.09901
json_is options.momentum_init=null options.beta=0.5 reports.0.step=2 reports.0.threshold=null
succeeds replay --optimizer soft-musec --threshold 2 --ns-mode fast --w0 w.npy --grads g.npy \
    --out out.npy --json
json_is reports.0.threshold=2.0
check "json: the path" test -n "$(json reports 0 path)"

# ---- wrong usage: exit 2 ---------------------------------------------------------------------------

rm -f out.npy m.npy
ok=(--grads g.npy --out out.npy)
fails 2 '--optimizer must say which' replay --w0 w.npy "${ok[@]}"
fails 2 "--optimizer 'nosuch' is none of musec\\|" replay --optimizer nosuch --w0 w.npy "${ok[@]}"
fails 2 '--w0 must name' replay --optimizer sgdm "${ok[@]}"
fails 2 '--grads must name' "${replay[@]}" --out out.npy
fails 2 '--out must name' "${replay[@]}" --grads g.npy
# one file for two things, by whatever name, and before anything is written
sha256sum w.npy g.npy >sums.before
fails 2 '--out out.npy and --momentum-out out.npy are the same file' "${replay[@]}" "${ok[@]}" \
    --momentum-out out.npy
fails 2 'same file' "${replay[@]}" "${ok[@]}" --momentum-out ./out.npy
fails 2 '--out out.npy and --state-out out.npy are' "${replay[@]}" "${ok[@]}" --state-out out.npy
fails 2 'same file' "${replay[@]}" "${ok[@]}" --momentum-out m.npy --state-out "$PWD/m.npy"
fails 2 '--grads g.npy and --momentum-out' "${replay[@]}" "${ok[@]}" --momentum-out "$PWD/g.npy"
fails 2 '--grads g.npy and --out g.npy are' "${replay[@]}" --grads g.npy --out g.npy
fails 2 '--w0 w.npy and --out w.npy are the same file' "${replay[@]}" --grads g.npy --out w.npy
ln -s w.npy link.npy
fails 2 '--w0 w.npy and --state-out link.npy' "${replay[@]}" "${ok[@]}" --state-out link.npy
fails 2 '--state-in state.safetensors and --out state.safetensors' "${replay[@]}" --grads g.npy \
    --state-in state.safetensors --out state.safetensors
check "the files are unchanged" sha256sum -c sums.before
check "no output was written" test ! -e out.npy -a ! -e m.npy
succeeds "${replay[@]}" --grads g.npy --out /dev/null --momentum-out /dev/null
fails 2 "takes no operand" "${replay[@]}" "${ok[@]}" more
fails 2 "--lr wants a number, not 'fast'" "${replay[@]}" "${ok[@]}" --lr fast
fails 2 "--lr wants a number, not 'nan'" "${replay[@]}" "${ok[@]}" --lr nan
fails 2 "--ns-iters wants a whole number, not '2.5'" "${replay[@]}" "${ok[@]}" --ns-iters 2.5
fails 2 "--threshold wants D\\|rms:K.*, not 'rms:'" "${replay[@]}" "${ok[@]}" --threshold rms:
fails 2 "--threshold wants .*, not 'big'" "${replay[@]}" "${ok[@]}" --threshold big
fails 2 "--weight-decay wants .*, not 'qk=1,vo'" "${replay[@]}" "${ok[@]}" --weight-decay qk=1,vo
fails 2 "--role 'bias' is none of matrix\\|qk" "${replay[@]}" "${ok[@]}" --role bias
fails 2 "--ns-mode 'slow' is none of" "${replay[@]}" "${ok[@]}" --ns-mode slow
fails 2 "--dtype 'f16' is none of" "${replay[@]}" "${ok[@]}" --dtype f16
fails 2 'did you mean --threshold' "${replay[@]}" "${ok[@]}" --treshold 1

# ---- values, files, shapes: exit 1, nothing written ------------------------------------------------

# refuses PATTERN ARGUMENT...: fails with 1, leaves no file, keeps an old output.
refuses() {
    local pattern=$1
    shift
    rm -f out.npy m.npy
    keeps_files fails 1 "$pattern" replay --optimizer soft-musec "$@" --out out.npy --momentum-out m.npy
    echo old >out.npy
    fails 1 "$pattern" replay --optimizer soft-musec "$@" --out out.npy --momentum-out m.npy
    check "replay $* keeps the old output" test "$(cat out.npy)" = old
    check "replay $* writes no momentum" test ! -e m.npy
    rm -f out.npy
}
good=(--w0 w.npy --grads g.npy)
refuses '--lr is "-1"; it must be a number from 0' "${good[@]}" --lr -1
refuses '--beta is "1.5"' "${good[@]}" --beta 1.5
refuses '--threshold is "0"; it must be a number above 0' "${good[@]}" --threshold 0
refuses '--threshold is "quantile:1.5"' "${good[@]}" --threshold quantile:1.5
refuses '--threshold is "mean:1"' "${good[@]}" --threshold mean:1
refuses '--ns-iters is "0"' "${good[@]}" --ns-iters 0
refuses '--weight-decay is "head=1"' "${good[@]}" --weight-decay head=1
refuses '--weight-decay is "-1"' "${good[@]}" --weight-decay -1
refuses 'muon has ns-mode paper and exact only' "${good[@]}" --optimizer muon --ns-mode fast
refuses 'no device "abacus"' "${good[@]}" --device abacus
refuses 'missing.npy: .*No such file' --w0 missing.npy --grads g.npy
refuses 'missing.npy: .*No such file' --w0 w.npy --grads missing.npy
echo 'not an array' >text.npy
refuses 'text.npy: .*not a .npy' --w0 w.npy --grads text.npy
refuses 'g.npy: the weight must be one matrix' --w0 g.npy --grads g.npy
refuses 'w.npy: the gradients must be \(steps, rows, cols\)' --w0 w.npy --grads w.npy
npy g21.npy '<f8' '(1, 2, 1)' False "$f8_1$f8_2"
refuses 'g21.npy: gradients of 2x1 do not fit the weight of 1x2 in w.npy' --w0 w.npy --grads g21.npy
npy none.npy '<f8' '(0, 1, 2)' False ''
refuses 'none.npy: the array is empty' --w0 w.npy --grads none.npy
npy wnan.npy '<f8' '(1, 2)' False "$f8_1$f8_nan"
refuses 'wnan.npy: element \[0, 1\] is nan' --w0 wnan.npy --grads g.npy
npy huge.npy '<f8' '(1, 2)' False "$f8_1$f8_huge"
refuses 'huge.npy: .*too large for f32; use --dtype f64' --w0 huge.npy --grads g.npy --dtype f32
fails 1 'absent/out.npy: .*No such file' "${replay[@]}" --grads g.npy --out absent/out.npy
fails 1 'absent/m.npy: .*No such file' "${replay[@]}" "${ok[@]}" --momentum-out absent/m.npy
check "one output without the other is none" test ! -e out.npy
check "no part is left" test -z "$(find . -name '*.part*')"

# a gradient that is not finite: stop names the step, skip counts it
npy gnan.npy '<f8' '(3, 1, 2)' False "$f8_1$f8_2$f8_nan$f8_1$f8_3$f8_4"
npy ginf.npy '<f8' '(1, 1, 2)' False "$f8_1$f8_minf"
check "there are optimizers" test "$(optimizers | wc -l)" -ge 10
for o in $(optimizers); do
    fails 1 'gnan.npy: step 2: ' replay --optimizer "$o" --w0 w.npy --grads gnan.npy --out out.npy
    fails 1 'ginf.npy: step 1: ' replay --optimizer "$o" --w0 w.npy --grads ginf.npy --out out.npy
done
check "stop writes nothing" test ! -e out.npy
for type in f8 f4; do
    succeeds "${replay[@]}" --grads gnan.npy --out out.npy --nonfinite skip --dtype f$((8 * ${type#f}))
    prints '^sgdm, 2 steps .*, 1 skipped: '
    holds out.npy $type 0 '3 -2 3 -2 1 -5'
done

# ---- the golden trajectories -----------------------------------------------------------------------

python=$(python_with numpy)
if [ -z "$python" ]; then
    skip "no python3 with NumPy: golden trajectories"
    finish
fi

export MUSEC OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # threads only slow tiny matrices down
judged "$python" - <<'PYTHON'
import os, struct, subprocess
import numpy as np
from judge import check, ends

musec, source = os.environ["MUSEC"], os.environ["MUSEC_SOURCE"]

def load(path):  # the container of tests/data/golden/README.md
    records = {}
    with open(path, "rb") as f:
        assert f.read(8) == b"MUSECGV1"
        n, _ = struct.unpack("<II", f.read(8))
        for _ in range(n):
            name = f.read(32).rstrip(b"\0").decode()
            rows, cols = struct.unpack("<II", f.read(8))
            records[name] = np.frombuffer(f.read(8 * rows * cols), "<f8").reshape(rows, cols)
    return records

def far(got, want):  # relative, each step's matrix by itself
    diff = np.linalg.norm(got.astype(np.float64) - want, axis=(1, 2))
    return (diff / np.linalg.norm(want, axis=(1, 2))).max()

ADAM = ["adamw", "--lr", "{adam_lr}", "--beta1", "{adam_b1}", "--beta2", "{adam_b2}", "--eps",
        "{adam_eps}"]
KINDS = {  # golden name: optimizer and its options; {x} is the record x
    "musec": ["musec"],
    "soft_musec": ["soft-musec"],
    "soft_musec_exact": ["soft-musec", "--ns-mode", "exact"],
    "spectra_hard": ["spectra", "--clip", "hard"],
    "spectra_soft": ["spectra"],
    "muon_ns5": ["muon"],
    "muon_polar": ["muon", "--ns-mode", "exact"],
    "adamw": ADAM,
}
COMMON = ["--lr", "{lr}", "--beta", "{beta}", "--threshold", "{D}"]

for name in ("traj_8x12", "traj_10x6"):
    golden = load(os.path.join(source, "tests/data/golden", name + ".mgv"))
    number = {k: repr(float(v[0, 0])) for k, v in golden.items() if v.size == 1}
    steps = int(golden["nsteps"][0, 0])
    for dtype, tol in (("<f8", 1e-12), ("<f4", 1e-5)):
        np.save("w0.npy", golden["W0"].astype(dtype))
        np.save("grads.npy", np.stack([golden[f"G{i}"] for i in range(steps)]).astype(dtype))
        for kind, words in KINDS.items():
            words = words if kind == "adamw" else words + COMMON
            words = [w.format(**number) for w in words]
            for decay in ("nowd", "wd"):
                more = ["--weight-decay", number["adam_wd" if kind == "adamw" else "wd"]]
                subprocess.run([musec, "replay", "--optimizer", *words, *(more if decay == "wd" else []),
                                "--w0", "w0.npy", "--grads", "grads.npy", "--out", "w.npy",
                                "--momentum-out", "m.npy"], check=True, stdout=subprocess.DEVNULL)
                w, m = np.load("w.npy"), np.load("m.npy")
                check(w.dtype == np.dtype(dtype) and m.dtype == w.dtype, "dtype")
                m_name = "m" if kind == "adamw" else "M"
                want_w = np.stack([golden[f"{kind}.{decay}.W{i + 1}"] for i in range(steps)])
                want_m = np.stack([golden[f"{kind}.{m_name}{i}"] for i in range(steps)])
                for got, want, what in ((w, want_w, "weights"), (m, want_m, "momentum")):
                    err = far(got, want)
                    check(err <= tol, f"{name} {kind} {decay} {dtype} {what}: off by {err:g}")
ends()
PYTHON

finish
