#!/usr/bin/env python3
"""optimizer_torch.py - a step of musec's optimizers in PyTorch, of torch.optim.Muon, and of others.

    python3 bench/peers/optimizer_torch.py [--size small|medium|wide] [--musec PROGRAM]
                                           [--peers DIR] [--workspaces] [--check]

Over the matrices that musec bench step has: a model of L layers of width w has 4 L of w x w and 2 L of
4w x w, in float32.  For each optimizer

    ms          a step, by CUDA events, one after another
    host_ms     the time until step() returns, with an idle device
    graph_ms    a replay of the step as a CUDA graph, where it can be captured
    peak_mb     PyTorch's peak of memory during a step, above weights, gradients and state
    first_s     for a peer, seconds until its first step was done, compiling and tuning included

and for SoftMusec, Muon and torch.optim.Muon, as "training", a step of training a whole model on 8192
tokens, in bf16 with float32 weights: ms, and peak_mb of all that it takes.

--workspaces adds SoftMusec with less memory for a step than it would take (the option `workspace`),
and with reports, whose memory is taken at the steps that report alone.

--musec is the program, whose own `bench step` figure is printed beside them.

Muon of other packages is measured where they can be imported, from --peers DIR too: dion,
emerging_optimizers and gram_newton_schulz, each as it comes and, if there is one, with its own
kernels for symmetric products.  All have a momentum of 0.95, Nesterov's form and five steps of
Newton-Schulz, whose coefficients are their own.  A row that fails, or takes longer than --limit
seconds, says so, and the next one follows.  --check makes one small step of each on the CPU instead,
without times, and compares it with the polar factor: whether DIR holds all that they need.
"""

import gc
import importlib
import json
import signal
import statistics
import subprocess
import sys
import time

import torch

from gpt_torch import Gpt, attention
from torch_timing import SIZES, VOCAB, arguments, median_ms, put, table

import musec.torch as mt


def weights(size, device="cuda"):
    layers, width, _ = (1, 64, 0) if device == "cpu" else SIZES[size]
    shapes = [(width, width)] * (4 * layers) + [(4 * width, width)] * (2 * layers)
    found = [torch.nn.Parameter(0.02 * torch.randn(shape, device=device)) for shape in shapes]
    for w in found:
        w.grad = torch.randn_like(w)
    return found


def host_ms(step):
    samples = []
    for _ in range(20):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        samples.append(1e3 * (time.perf_counter() - begin))
    torch.cuda.synchronize()
    return statistics.median(samples)


def graph_ms(optimizer):
    if not getattr(optimizer, "can_capture", None) or optimizer.can_capture():
        return None
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    return median_ms(graph.replay)


def measure(name, size, make, capture=False, is_peer=False):
    some = weights(size)
    begin = time.perf_counter()
    optimizer = make(some)
    optimizer.step()
    torch.cuda.synchronize()
    first_s = time.perf_counter() - begin
    for _ in range(2):
        optimizer.step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    optimizer.step()
    torch.cuda.synchronize()
    more = {
        "host_ms": host_ms(optimizer.step),
        "peak_mb": (torch.cuda.max_memory_allocated() - before) / 2**20,
        "held_mb": before / 2**20,
    }
    if is_peer:
        more["first_s"] = first_s
    ms = median_ms(optimizer.step)
    if capture:
        replay = graph_ms(optimizer)
        more["graph_ms"] = replay if replay is not None else optimizer.can_capture()
    put(name, size, ms, **more)
    del optimizer, some
    torch.cuda.empty_cache()


def workspaces(size):
    measure("SoftMusec, report_every 1000", size, lambda p: mt.SoftMusec(p, lr=0.02))
    for mib in (64, 256, 512, 1024, 2048):
        measure(
            f"SoftMusec, workspace {mib} MiB",
            size,
            lambda p, n=mib << 20: mt.SoftMusec(p, lr=0.02, report_every=0, workspace=n),
        )


# ---- Muon of other packages ----------------------------------------------------------------------


def dion(**options):
    module = importlib.import_module("dion.muon")
    return lambda p: module.Muon(p, lr=0.02, nesterov=True, **options)


def emerging(**options):
    module = importlib.import_module("emerging_optimizers.orthogonalized_optimizers.muon")
    return lambda p: module.Muon(p, lr=0.02, nesterov=True, **options)


def gram(**options):
    module = importlib.import_module("gram_newton_schulz")
    # restarts as its own tuning finds them for its coefficients
    return lambda p: module.Muon(p, lr=0.02, gram_newton_schulz_restart_iterations=[2], **options)


# name, what makes the optimizer, whether it has kernels of its own; the quickest to compile first
PEERS = [
    ("emerging_optimizers Muon", emerging, {}, False),
    ("gram_newton_schulz Muon", gram, {"ns_use_kernels": False}, False),
    ("dion Muon", dion, {}, False),
    ("gram_newton_schulz Muon, its kernels", gram, {"ns_use_kernels": True}, True),
    ("emerging_optimizers Muon, use_syrk", emerging, {"use_syrk": True}, True),
    ("dion Muon, use_triton", dion, {"use_triton": True}, True),
]


def too_long(*_):
    raise TimeoutError("it took too long")


def bench_peer(name, make, options, size, limit):
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(limit)
    try:
        measure(name, size, make(**options), is_peer=True)
    except Exception as why:  # pylint: disable=broad-except
        words = (str(why).splitlines() or [""])[0]
        print(f"{name}, {size}: {type(why).__name__}: {words}", flush=True)
    finally:
        signal.alarm(0)
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()


def check_peer(name, make, options):
    """The largest distance of a step, scaled to its best multiple, from the polar factor."""
    torch.manual_seed(0)
    some = weights("", "cpu")
    before = [w.detach().clone() for w in some]
    make(**options)(some).step()
    worst = 0.0
    for w, was in zip(some, before):
        u, _, vh = torch.linalg.svd(w.grad, full_matrices=False)
        step, polar = was - w.detach(), u @ vh
        share = (step * polar).sum() / (step.norm() * polar.norm())
        worst = max(worst, (1.0 - share.item() ** 2) ** 0.5)
    print(f"{name}: a step is {worst:.3f} from the polar factor, relative to it", flush=True)
    return worst <= 0.3  # five steps of Newton-Schulz leave up to that


def check():
    good = True
    for name, make, options, has_kernels in PEERS:
        try:
            if has_kernels:
                print(f"{name}: needs a GPU")
            else:
                good &= check_peer(name, make, options)
        except Exception as why:  # pylint: disable=broad-except
            print(f"{name}: {type(why).__name__}: {why}", flush=True)
            good = False
    sys.exit(0 if good else 1)


def own_figure(program, size):
    done = subprocess.run(
        [program, "bench", "step", "--preset", size, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(f"{program} bench step: {done.stderr.strip()}", file=sys.stderr)
        return
    print(json.dumps({"peer": program, "size": size, "bench_step": json.loads(done.stdout)}))


def extend(parser):
    parser.add_argument("--musec", help="the program, for its own figure")
    parser.add_argument("--peers", metavar="DIR", help="where packages of others lie")
    parser.add_argument("--workspaces", action="store_true",
                        help="SoftMusec with limits of its workspace, too")
    parser.add_argument("--only-peers", action="store_true",
                        help="of musec and torch.optim, Muon alone")
    parser.add_argument("--plain", action="store_true",
                        help="packages of others as they come alone, not their own kernels, whose "
                             "tuning takes minutes")
    parser.add_argument("--limit", type=int, default=90, metavar="S",
                        help="seconds for a row of another package [%(default)s]")
    parser.add_argument("--check", action="store_true", help="whether those work, on the CPU")


def training(name, size, make, tokens=8192):
    """Forward, backward and step of the model, whose tables go to AdamW."""
    layers, width, length = SIZES[size]
    model = Gpt(layers, width, length, attention("sdpa", length, False), linear=in_bf16,
                dtype=torch.bfloat16).cuda()  # fmt: skip
    optimizers = [
        make(list(model.blocks.parameters())),
        torch.optim.AdamW([model.embed, model.head], fused=True),
    ]
    ids = torch.randint(VOCAB, (tokens // length, length), device="cuda")

    def step():
        model(ids, ids).backward()
        for one in optimizers:
            one.step()
            one.zero_grad()

    step()
    torch.cuda.reset_peak_memory_stats()
    ms = median_ms(step)
    peak = torch.cuda.max_memory_allocated() / 2**20
    put(f"training, {name}", f"{size}, {tokens} tokens", ms, peak_mb=peak)
    del model, optimizers
    gc.collect()
    torch.cuda.empty_cache()


def in_bf16(x, w):
    return torch.nn.functional.linear(x, w.to(x.dtype))


def main():
    sizes, given = arguments(__doc__, extend)
    if given.peers:
        sys.path.insert(0, given.peers)
    if given.check:
        check()
    for size in sizes:
        if not given.only_peers:
            measure("SoftMusec", size, lambda p: mt.SoftMusec(p, lr=0.02, report_every=0))
            measure(
                "SoftMusec capturable",
                size,
                lambda p: mt.SoftMusec(p, lr=0.02, capturable=True, report_every=0),
                capture=True,
            )
            measure("Musec", size, lambda p: mt.Musec(p, lr=0.02, report_every=0))
        if given.workspaces:
            workspaces(size)
        measure("Muon", size, lambda p: mt.Muon(p, lr=0.02, report_every=0))
        if hasattr(torch.optim, "Muon"):
            measure("torch.optim.Muon", size, lambda p: torch.optim.Muon(p, lr=0.02))
        if not given.only_peers:
            measure("AdamW", size, lambda p: mt.AdamW(p, lr=1e-3, report_every=0))
            measure(
                "torch.optim.AdamW fused",
                size,
                lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
            )
            training("SoftMusec", size, lambda p: mt.SoftMusec(p, lr=0.02, report_every=0))
            training("Muon", size, lambda p: mt.Muon(p, lr=0.02, report_every=0))
            if hasattr(torch.optim, "Muon"):
                training("torch.optim.Muon", size, lambda p: torch.optim.Muon(p, lr=0.02))
        if given.musec:
            own_figure(given.musec, size)
    for name, make, options, has_kernels in PEERS:
        for size in [] if has_kernels and given.plain else sizes:
            bench_peer(name, make, options, size, given.limit)
    table()


if __name__ == "__main__":
    main()
