#!/usr/bin/env python3
"""cpu_torch.py - training on a CPU: musec bench train beside PyTorch, eager and compiled, in turns.

    python3 bench/peers/cpu_torch.py [--musec build/musec] [--preset nano,small] [--threads 2]
                                     [--rounds 5] [--rows eager,compiled] [--what pass,step]

The models are those of musec bench train on a CPU, and gpt_torch.Gpt is the same: pico and nano as they
are, and small without gates and x0 mixing, 2048 tokens in sequences of 1024, which a window of 1024 does not
cut; float32.  A whole step is forward, backward and Muon: five quintic Newton-Schulz steps in
float32 on the matrices of each shape as one batch, momentum, and AdamW (fused) on embedding and head.
torch.compile compiles the model and the Newton-Schulz steps.

Both programs stay loaded and take turns, round after round; each round times every row once, and the
one that waits sleeps.  Shown are medians of the rounds: wall time, the CPU time of all threads, and
PyTorch's time over musec's in the same round, of either.  On a busy machine the ratio of CPU times is
the steadier one; it does not see threads that wait for each other asleep.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit("this needs PyTorch")
import torch.nn.functional as F

from gpt_torch import Gpt

# layers, width, columns of a head, vocabulary, ids in use, tokens, length, scale of attention
MODELS = {"pico": (2, 128, 64, 320, 251, 2048, 128, None),
          "nano": (4, 256, 64, 320, 251, 8192, 256, None),
          "small": (11, 768, 128, 50304, 50257, 2048, 1024, 0.1)}
STEP = "step, muon"
WHAT = {"pass": "forward + backward", "step": STEP}  # the names of rows of musec bench train
QUINTIC, NS_STEPS = (3.4445, -4.7750, 2.0315), 5
LR, BETA = 1e-9, 0.05  # weights hardly change, so that no round differs from another


def ns5(x):
    """Newton-Schulz steps on a batch of matrices that are not taller than wide, in float32."""
    a, b, c = QUINTIC
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(NS_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


class Muon:
    """Muon on the matrices of the blocks, AdamW on embedding and head."""

    def __init__(self, model, compiled):
        self.square = [part for block in model.blocks for w in (block.qkv, block.out)
                       for part in w.chunk(w.size(0) // w.size(1))]
        self.tall = [w for block in model.blocks for w in (block.up, block.down)]
        self.params = [w for block in model.blocks
                       for w in (block.qkv, block.out, block.up, block.down)]
        self.momenta = [torch.zeros_like(w) for w in self.params]
        self.ns5 = torch.compile(ns5, dynamic=False) if compiled else ns5
        self.rest = torch.optim.AdamW([model.embed, model.head], lr=LR, fused=True)

    @torch.no_grad()
    def step(self):
        torch._foreach_lerp_(self.momenta, [w.grad for w in self.params], BETA)
        squares = [part for m in self.momenta if m.size(0) != 4 * m.size(1)
                   for part in m.chunk(m.size(0) // m.size(1))]
        talls = [m for m in self.momenta if m.size(0) == 4 * m.size(1)]
        torch._foreach_add_(self.square, list(self.ns5(torch.stack(squares)).unbind()), alpha=-LR)
        flat = self.ns5(torch.stack(talls).mT)
        torch._foreach_add_(self.tall, list(flat.mT.unbind()), alpha=-LR)
        self.rest.step()


class Torch:
    """PyTorch in this process."""

    def __init__(self, preset, compiled):
        layers, width, head, vocab, known, tokens, length, scale = MODELS[preset]
        torch.manual_seed(0)
        torch._dynamo.reset()

        def attend(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)

        self.model = Gpt(layers, width, length, attend, head, vocab)
        self.run = torch.compile(self.model, dynamic=False) if compiled else self.model
        self.optimizer = Muon(self.model, compiled)
        ids = torch.randint(known, (tokens // length, length + 1))
        self.batch = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def time(self, row):
        """Milliseconds of wall time and of CPU time."""
        wall, cpu = time.perf_counter(), time.process_time()
        for p in self.model.parameters():
            p.grad = None
        self.run(*self.batch).backward()
        if row == STEP:
            self.optimizer.step()
        return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)


class Musec:
    """musec bench train --ask in a process of its own."""

    def __init__(self, program, preset, threads):
        self.child = subprocess.Popen(
            [program, "bench", "train", "--device", "cpu", "--preset", preset, "--ask"],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self.about = self.child.stdout.readline().strip()

    def cpu_ms(self):
        """The CPU time of all threads: nanoseconds in the first column of the kernel's table."""
        tasks = Path(f"/proc/{self.child.pid}/task").glob("*/schedstat")
        return 1e-6 * sum(int(task.read_text().split()[0]) for task in tasks)

    def time(self, row):
        cpu = self.cpu_ms()
        self.child.stdin.write(row + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            sys.exit(f"musec bench train ended with status {self.child.wait()}")
        return float(line), self.cpu_ms() - cpu

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def compare(preset, given):
    ours = Musec(given.musec, preset, given.threads)
    rows = {"musec": ours}
    for how in given.rows.split(","):
        rows["PyTorch, " + how] = Torch(preset, how == "compiled")
    tokens = MODELS[preset][5]
    print(f"\n{preset}, {tokens} tokens, threads: {given.threads}, medians of {given.rounds} rounds; "
          f"ratios are PyTorch's time over musec's\nmusec: {ours.about}; PyTorch {torch.__version__}, "
          f"{torch.backends.cpu.get_cpu_capability()}", flush=True)
    for what in [WHAT[name] for name in given.what.split(",")]:
        times = {name: [] for name in rows}
        for i in range(given.rounds + 1):
            for name, row in rows.items():
                took = row.time(what)
                if i > 0:  # the first round compiles, and allocates what the first use needs
                    times[name].append(took)
        for name, took in times.items():
            wall, cpu = (statistics.median(t) for t in zip(*took))
            ratios = [statistics.median(t[k] / o[k] for t, o in zip(took, times["musec"]))
                      for k in range(2)]
            row = {"preset": preset, "threads": given.threads, "name": name, "what": what,
                   "ms": wall, "cpu_ms": cpu, "tokens_s": 1e3 * tokens / wall,
                   "ratio": ratios[0], "cpu_ratio": ratios[1]}
            print("  %-20s %-20s %10.1f ms %8.0f tokens/s %6.2f x   CPU %10.1f ms %6.2f x" % (
                what, name, wall, row["tokens_s"], ratios[0], cpu, ratios[1]), flush=True)
            if given.json:
                print(json.dumps(row), flush=True)
    ours.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--musec", default="build/musec", help="the program [%(default)s]")
    parser.add_argument("--preset", default="nano,small", help="models [%(default)s]")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="of each side [the cores]")
    parser.add_argument("--rounds", type=int, default=5, help="[%(default)s]")
    parser.add_argument("--rows", default="eager,compiled", help="of PyTorch [%(default)s]")
    parser.add_argument("--what", default="pass,step", help="is timed [%(default)s]")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row too")
    given = parser.parse_args()
    for words, known in ((given.preset, MODELS), (given.rows, ("eager", "compiled")),
                         (given.what, WHAT)):
        if unknown := set(words.split(",")) - set(known):
            parser.error(f"there is no {', '.join(sorted(unknown))}, only {', '.join(known)}")
    torch.set_num_threads(given.threads)
    for preset in given.preset.split(","):
        compare(preset, given)


if __name__ == "__main__":
    main()
