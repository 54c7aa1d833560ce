"""cases.py - the commands that are disturbed: what each needs before, and how it is run.

A case is run in a copy of the directory that its `needs` made, with fixed inputs.  `again` is what
a user would do after a failure, in what the failure left; then all must be as if nothing had been.
"""
import gzip
import json
import struct

TINY = ("--preset pico --steps 6 --checkpoint-every 2 --val-every 3 --report-every 3 --quiet "
        "--set layers=1 --set width=16 --set heads=1 --set head=16 --set mlp=32 --set batch=64 "
        "--set max_doc=32 --set val_tokens=64").split()
SWEEP = ("--optimizer muon,soft-musec --lr 0.02 --preset pico --set steps=2 --set layers=1 "
         "--set width=16 --set heads=1 --set head=16 --set mlp=32 --set batch=64 "
         "--set max_doc=32 --set val_tokens=64 --out sweep --jobs 1").split()


# Every part of the models in full, on four layers of sixteen columns; the window grows after two
# steps, and the embedding parts from the head after four.
_full = ("--steps 6 --checkpoint-every 2 --val-every 3 --report-every 3 --quiet --layers 4 "
         "--width 16 --heads 2 --head 8 --mlp 32 --batch 64 --micro-batches 2 --val-tokens 64 "
         "--tokenizer byte --long-layers 1,3 --gate-width 8 --yarn 32 --untie 4 --spare 3 "
         "--set extension=0 %s --set stages=2_doc=32_window=8/16;_rest_doc=32_window=16/32")
PARTS = {preset: ["--preset", preset] + [x.replace("_", " ") if x.startswith("stages=") else x
                                         for x in (_full % more).split()]
         for preset, more in (
             ("small-full", "--skips 2:0 --bare-layers 1 --paired-layers 2 --bigram 64 "
                            "--bigram-width 8 --value-tables 0:0,3:1 --attn-from 1 --mudd 8"),
             ("medium-full", "--skips 2:0,3:1 --backout 1 --value-tables 0:0,1:1,3:0"))}
PAPER = ("--set stages= --set steps=200 --set layers=1 --set width=32 --set heads=1 --set head=32 "
         "--set mlp=64 --set batch=512 --set max_doc=64 --set val_tokens=256 "
         "--set report_every=50").split()  # runs that have learned something: claims are judged


def npy(shape, values):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }" % ", ".join(map(str, shape))
    head += " " * ((64 - (10 + len(head) + 1) % 64) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
            + struct.pack("<%df" % len(values), *values))


def numbers(n):  # any fixed numbers that are not special
    return [((i * 2654435761) % 1000) / 500.0 - 0.999 for i in range(n)]


def write_inputs(put, port):
    """Writes the files that the cases read; `put` takes a name and bytes.  The files below www are
    served at the port."""
    texts = [{"id": i, "text": "Document %d says \u00e9 and \"%s\".\n" % (i, "lorem " * (5 + 7 * i))}
             for i in range(12)]
    lines = "".join(json.dumps(t, ensure_ascii=i % 2 == 0) + "\n" for i, t in enumerate(texts))
    put("texts.jsonl", lines.encode())
    put("texts.json.gz", gzip.compress(lines.encode(), mtime=0))
    put("plain.txt", b"A first paragraph.\n\nAnd a second one, which is longer.\n" * 8)
    put("x.npy", npy((6, 4), numbers(24)))
    put("w0.npy", npy((4, 4), numbers(16)))
    put("grads.npy", npy((3, 4, 4), numbers(48)))
    put("ids.txt", b"72 105 10\n")
    for i in range(2):
        put("www/t_%d.bin" % i, struct.pack("<256i", 20240520, 1, 900, *[0] * 253)
            + struct.pack("<900H", 50256, *range(899)))
    put("sources.json", json.dumps({"sets": [{"name": "tiny", "kind": "shards", "files": [
        {"name": "t_{0..1}.bin", "urls": ["http://127.0.0.1:%d/t_{0..1}.bin" % port]}]}]}).encode())


class Case:
    """slow: not among the samples of every day; measures: what it prints has times in it; ranks:
    so many processes make it together, all of which are disturbed."""

    def __init__(self, name, argv, needs="inputs", stdin=None, again=None, slow=False,
                 measures=False, ranks=0):
        self.name, self.needs, self.stdin = name, needs, stdin
        self.argv = argv.split() if isinstance(argv, str) else argv
        self.stdout = "stdout of measurements" if measures else "stdout"
        self.again = self.argv if again is None else again.split()
        self.slow, self.ranks = slow, ranks


NEEDS = {  # directories with what was made before, by musec itself
    "inputs": [],
    "run": [["train", "--out", "run"] + TINY],
    "half": [["train", "--out", "run"] + TINY + ["--time-limit", "1e-9"]],
    "sweep": [["sweep"] + SWEEP],
    "archive": [["sweep"] + SWEEP,
                ["report", "sweep", "--out", "first.html", "--archive", "runs.tar.xz"]],
    "paper": [["paper", "threshold", "--out", "paper", "--jobs", "1", "--omit-times"] + PAPER],
    "shards": [["tokenize", "texts.jsonl", "--tokenizer", "byte", "--out", "shards"]],
}

_tiny, _sweep, _paper = " ".join(TINY), " ".join(SWEEP), " ".join(PAPER)
CASES = [
    Case("info", "info --no-peak --json"),
    Case("help", "train --help"),
    Case("completion", "completion bash"),
    Case("completion-zsh", "completion zsh"),
    Case("completion-fish", "completion fish"),
    Case("plan", "plan --preset nano --chip h200 --gpus 1,8,64 --link-gbps 100 --json"),
    Case("clip", "clip x.npy y.npy --op soft --threshold 0.5 --json"),
    Case("spectrum", "spectrum x.npy --json"),
    Case("spectrum-run", "spectrum run/checkpoint/step_00000006/model.safetensors --json", "run"),
    Case("replay", "replay --optimizer soft-musec --w0 w0.npy --grads grads.npy --out w.npy --json"),
    Case("encode", "encode --tokenizer byte", stdin="plain.txt"),
    Case("decode", "decode --tokenizer byte", stdin="ids.txt"),
    Case("tokenize", "tokenize texts.jsonl texts.json.gz --tokenizer byte --out out "
                     "--shard-tokens 1000 --val-tokens 500"),
    Case("tokenize-skip", "tokenize texts.jsonl --tokenizer byte --out out --skip-bad --json"),
    Case("tokenize-text", "tokenize plain.txt --tokenizer byte --out out"),
    Case("inspect", "data inspect shards/train_000001.bin --tokenizer byte --json", "shards"),
    Case("explain", "train --explain " + _tiny),
    Case("explain-json", "train --explain --json " + _tiny),
    Case("train", "train --out new " + _tiny, again="train --out new " + _tiny),
    Case("train-shards", "train --out new --data shards --json " + _tiny, "shards"),
    Case("resume", "train --resume run --steps 8 --quiet", "run"),
    Case("resume-half", "train --resume run --quiet", "half"),
    Case("init-from", "train --init-from run --out new " + _tiny, "run"),
    Case("train-small-full", ["train", "--out", "new"] + PARTS["small-full"]),
    Case("train-medium-full", ["train", "--out", "new"] + PARTS["medium-full"]),
    Case("explain-full", ["train", "--explain", "--json"] + PARTS["small-full"]),
    Case("ranks", "train --out new --comm tcp --micro-batches 2 " + _tiny, slow=True, ranks=2),
    Case("replicas", "train --out new --comm tcp --micro-batches 4 --replicas 2 "
                     "--deterministic no " + _tiny,
         slow=True, ranks=4),
    Case("sample", "sample run --tokens 8 --seed 1 --prompt Hi --json", "run"),
    Case("export", "export run --out model --json", "run"),
    Case("sweep", "sweep " + _sweep + " --json"),
    Case("sweep-done", "sweep " + _sweep + " --json", "sweep"),
    Case("sweep-plan", "sweep " + _sweep + " --dry-run --json"),
    Case("sweep-best", "sweep --best-of sweep --times 1,5 --seed 0,1 --time-limit 60 "
                       "--no-checkpoints --jobs 1 --out best --json", "sweep"),
    Case("sweep-two", "sweep " + _sweep.replace("--jobs 1", "--jobs 2") + " --seed 0,1", slow=True),
    Case("report", "report sweep --out page.html --csv csv --omit-times --json", "sweep"),
    Case("report-to-archive", "report sweep --out page.html --archive runs.tar.xz --omit-times "
                              "--json", "sweep"),
    Case("report-opened", "report runs.tar.xz --out page.html --csv csv --omit-times --json",
         "archive"),
    Case("report-png", "report sweep --out page.html --png png --omit-times", "sweep", slow=True),
    Case("watch", "watch sweep --once", "sweep"),
    Case("paper-list", "paper list --no-run --json", slow=True),
    Case("paper-plan", "paper threshold --dry-run --json"),
    Case("paper-only", "paper threshold --dry-run --list threshold=0.1,0.2 "
                       "--only threshold=0.2 --json"),
    Case("paper-tables", "paper architecture --out out --omit-times --json"),
    Case("paper-runs", "paper threshold --out out --jobs 1 --omit-times --json "
                       + _paper.replace("steps=200", "steps=2"), slow=True),
    Case("paper-page", "paper threshold --no-run --out paper --csv csv --omit-times --json "
                       + _paper, "paper", slow=True),
    Case("paper-verdict", "paper verdict --no-run --out paper --omit-times --json " + _paper,
         "paper", slow=True),
    Case("paper-theory", "paper theory --quick --seeds 1 --out out --json", slow=True,
         measures=True),
    Case("theory", "theory params --delta 0.1 --steps 1000 --rank 2 --json"),
    Case("theory-list", "theory run list --json"),
    Case("theory-run", "theory run quadratic --steps 200 --samples 4 --json"),
    Case("data-list", "data get --list --json"),
    Case("data-get", "data get tiny --sources sources.json --out got --retries 0 --quiet --json"),
    Case("bench", "bench ops --quick --repeats 1 --filter gemm --json", slow=True, measures=True),
    Case("demo", "demo --steps 2 --jobs 1 --out demo --json", slow=True),
    Case("plan-measured", "plan --set layers=1 --gpus 1,2 --link-gbps 10 --json", slow=True,
         measures=True),
]
# every optimizer that is no row above, and parts of optimizers that none of them has
CASES += [Case("train-" + name, "train --out new --optimizer %s %s" % (name, _tiny),
               slow=name != "normuon")
          for name in ("musec", "muon", "muonclip", "spectra", "sgdm", "adam", "adamw", "signum",
                       "ademamix", "lion", "soap", "shampoo", "kl-shampoo", "dion2", "normuon",
                       "adamuon", "muon2", "scion", "muonh", "mucon", "softmuon")]
CASES += [
    Case("train-recompute", "train --out new --recompute layer " + _tiny, slow=True),
    Case("train-composed", "train --out new --optimizer muon --base lion --function soft "
                           "--second-moment longer --decay-form hyperball " + _tiny),
    Case("replay-normuon", "replay --optimizer normuon --w0 w0.npy --grads grads.npy --out w.npy "
                           "--state-out s.safetensors --json"),
]


# ---- on a device ----

def device_cases(device):
    """The commands that compute on a device; each kind of arithmetic and of kernels is in one."""
    at = " --device " + device
    heads = _tiny.replace("head=16", "head=64").replace("width=16", "width=64")
    return [
        Case("info", "info --no-peak --json" + at),
        Case("clip", "clip x.npy y.npy --op soft --threshold 0.5 --json" + at),
        Case("clip-ssc", "clip x.npy y.npy --op ssc --threshold 0.5 --operands bf16 --json" + at),
        Case("clip-hard", "clip x.npy y.npy --op hard-fast --threshold 0.5 --json" + at),
        Case("spectrum", "spectrum x.npy --json" + at),
        Case("replay", "replay --optimizer soft-musec --w0 w0.npy --grads grads.npy --out w.npy "
                       "--state-out s.safetensors --json" + at),
        Case("replay-muon", "replay --optimizer muon --w0 w0.npy --grads grads.npy --out w.npy "
                            "--json" + at),
        Case("train", "train --out new " + _tiny + at),
        Case("train-f32", "train --out new --precision f32 " + _tiny + at),
        Case("train-heads", "train --out new " + heads + at),
        Case("train-muon", "train --out new --optimizer muon --precision f16 " + heads + at),
        Case("resume", "train --resume run --steps 8 --quiet" + at, "run"),
        Case("init-from", "train --init-from run --out new " + _tiny + at, "run"),
        Case("sample", "sample run --tokens 8 --seed 1 --prompt Hi --json" + at, "run"),
        Case("sweep", "sweep " + _sweep.replace("--jobs 1", "") + " --json" + at),
    ]
