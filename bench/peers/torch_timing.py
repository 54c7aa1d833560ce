"""torch_timing.py - functions of all PyTorch peers: sizes, timing by CUDA events, rows of output.

Each result is printed at once as a line of JSON, and as a row of the table at the end.  Times are
medians of 20 samples or more; a sample repeats a run for some milliseconds.
"""
import argparse
import json
import statistics
import sys

try:
    import torch
except ImportError:
    sys.exit("this needs PyTorch")

SIZES = {"small": (11, 768, 2048), "medium": (16, 1024, 4096), "wide": (16, 2048, 4096)}
TOKENS, VOCAB, HEAD = 32768, 50304, 128
SAMPLES, LEAST_MS = 20, 5.0

rows = []


def arguments(text, extend=None):
    """--size of the command line, as a list, and what `extend` adds."""
    parser = argparse.ArgumentParser(description=text.split("\n")[0])
    parser.add_argument("--size", choices=list(SIZES), help="of the model [all]")
    if extend is not None:
        extend(parser)
    given = parser.parse_args()
    if not torch.cuda.is_available() and not getattr(given, "check", False):
        sys.exit("skipped: PyTorch sees no GPU here")
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    return [given.size] if given.size else list(SIZES), given


def sample_ms(run, repeats):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / repeats


def median_ms(run, samples=SAMPLES):
    for _ in range(3):  # compiles, and allocates what the first use needs
        run()
    once = max(sample_ms(run, 3), 1e-3)
    repeats = max(1, int(LEAST_MS / once))
    return statistics.median(sample_ms(run, repeats) for _ in range(samples))


def put(name, shape, ms, flops=0.0, nbytes=0.0, **more):
    """Prints and records one result."""
    row = {"peer": "torch " + torch.__version__, "name": name, "shape": shape, "ms": ms}
    if flops:
        row["tflop_s"] = flops / ms * 1e-9
    if nbytes:
        row["gb_s"] = nbytes / ms * 1e-6
    row.update(more)
    rows.append(row)
    print(json.dumps(row), flush=True)


def gemm_peak(n=8192):
    """The TFLOP/s of a product in bf16."""
    a = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
    c = torch.empty_like(a)
    ms = median_ms(lambda: torch.mm(a, b, out=c))
    put("gemm bf16", "%d^3" % n, ms, flops=2.0 * n**3)
    return 2.0 * n**3 / ms * 1e-9


def table():
    print("\n%-40s %-26s %10s %10s %10s" % ("name", "shape", "ms", "TFLOP/s", "GB/s"))
    for r in rows:
        print("%-40s %-26s %10.3f %10s %10s %s" % (
            r["name"], r["shape"], r["ms"],
            "%.1f" % r["tflop_s"] if "tflop_s" in r else "",
            "%.1f" % r["gb_s"] if "gb_s" in r else "",
            "%.0f tokens/s" % r["tokens_s"] if "tokens_s" in r else ""))
