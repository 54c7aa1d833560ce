#!/usr/bin/env python3
"""optimizer_torch.py - a step of musec's optimizers in PyTorch, and of torch.optim.Muon.

    python3 bench/peers/optimizer_torch.py [--size small|medium|wide] [--musec PROGRAM]

Over the matrices that musec bench step has: a model of L layers of width w has 4 L of w x w and 2 L of
4w x w, in float32.  For each optimizer

    ms          a step, by CUDA events, one after another
    host_ms     the time until step() returns, with an idle device
    graph_ms    a replay of the step as a CUDA graph, where it can be captured
    peak_mb     PyTorch's peak of memory during a step, above weights, gradients and state

--musec is the program, whose own `bench step` figure is printed beside them.
"""

import json
import statistics
import subprocess
import sys
import time

import torch

from torch_timing import SIZES, arguments, median_ms, put, table

import musec.torch as mt


def weights(size):
    layers, width, _ = SIZES[size]
    shapes = [(width, width)] * (4 * layers) + [(4 * width, width)] * (2 * layers)
    found = [torch.nn.Parameter(0.02 * torch.randn(shape, device="cuda")) for shape in shapes]
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


def measure(name, size, make, capture=False):
    some = weights(size)
    optimizer = make(some)
    for _ in range(3):
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
    ms = median_ms(optimizer.step)
    if capture:
        replay = graph_ms(optimizer)
        more["graph_ms"] = replay if replay is not None else optimizer.can_capture()
    put(name, size, ms, **more)
    del optimizer, some
    torch.cuda.empty_cache()


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


def main():
    sizes, given = arguments(
        __doc__,
        lambda parser: parser.add_argument("--musec", help="the program, for its own figure"),
    )
    for size in sizes:
        measure("SoftMusec", size, lambda p: mt.SoftMusec(p, lr=0.02, report_every=0))
        measure(
            "SoftMusec capturable",
            size,
            lambda p: mt.SoftMusec(p, lr=0.02, capturable=True, report_every=0),
            capture=True,
        )
        measure("Musec", size, lambda p: mt.Musec(p, lr=0.02, report_every=0))
        measure("Muon", size, lambda p: mt.Muon(p, lr=0.02, report_every=0))
        measure("AdamW", size, lambda p: mt.AdamW(p, lr=1e-3, report_every=0))
        if hasattr(torch.optim, "Muon"):
            measure("torch.optim.Muon", size, lambda p: torch.optim.Muon(p, lr=0.02))
        measure(
            "torch.optim.AdamW fused", size, lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True)
        )
        if given.musec:
            own_figure(given.musec, size)
    table()


if __name__ == "__main__":
    main()
