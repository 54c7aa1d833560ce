#!/usr/bin/env python3
"""train_gpt.py - a GPT of nanoGPT's kind, trained by an optimizer of musec in PyTorch.

    python examples/train_gpt.py                           a minute on a laptop: this file's own text
    python examples/train_gpt.py --data book.txt --layers 12 --width 768 --heads 12 --context 1024
    torchrun --nproc-per-node 8 examples/train_gpt.py ...  DDP, the matrices shared out
    torchrun --nproc-per-node 8 examples/train_gpt.py --fsdp ...

Compare with --optimizer muon, spectra, adamw, or torch-muon, which is torch.optim.Muon.  The three
lines that a script of your own needs are marked.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import musec.torch as mt  # 1


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width, bias=False)  # Q, K and V by rows
        self.c_proj = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, c = x.shape
        q, k, v = (
            part.view(n, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(c, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(n, t, c))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, vocab: int, context: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.lm_head.weight = self.wte.weight
        self.apply(self._start)
        for block in self.h:
            for layer in (block.c_proj, block.down):
                nn.init.normal_(layer.weight, std=0.02 / math.sqrt(2 * layers))

    @staticmethod
    def _start(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_optimizer(model: nn.Module, args: argparse.Namespace) -> list[torch.optim.Optimizer]:
    adamw = {"lr": args.adamw_lr, "weight_decay": 0.1}
    if args.optimizer == "torch-muon":
        matrices = [p for n, p in model.named_parameters() if n.startswith("h.") and p.ndim == 2]
        others = [
            p for n, p in model.named_parameters() if not (n.startswith("h.") and p.ndim == 2)
        ]
        return [
            torch.optim.Muon(matrices, lr=args.lr, weight_decay=args.weight_decay),
            torch.optim.AdamW(others, **adamw),
        ]
    groups = mt.groups(  # 2
        model, blocks={"c_attn": mt.blocks.split(3)}, adamw_options=adamw
    )
    names = {
        "soft-musec": mt.SoftMusec,
        "musec": mt.Musec,
        "muon": mt.Muon,
        "spectra": mt.Spectra,
        "adamw": mt.AdamW,
    }
    share = dist.is_initialized() and not args.fsdp
    options = {"lr": args.lr, "weight_decay": args.weight_decay, "share": share}
    return [names[args.optimizer](groups, **options)]  # 3


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=__file__, help="a text; its bytes are the tokens")
    parser.add_argument("--optimizer", default="soft-musec")
    parser.add_argument("--lr", type=float, default=0.02, help="of the matrices")
    parser.add_argument("--adamw-lr", type=float, default=1e-3, help="of everything else")
    parser.add_argument("--weight-decay", type=float, default=0.01)
    for name, value in (
        ("layers", 3),
        ("width", 96),
        ("heads", 3),
        ("context", 64),
        ("batch", 16),
        ("steps", 100),
        ("accumulate", 1),
        ("seed", 0),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--fsdp", action="store_true", help="cut the model by FSDP2")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        if args.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    torch.manual_seed(args.seed)
    data = torch.tensor(list(Path(args.data).read_bytes()), dtype=torch.long)
    model: nn.Module = GPT(256, args.context, args.layers, args.width, args.heads).to(args.device)
    if args.fsdp:
        from torch.distributed.fsdp import fully_shard

        for block in model.h:
            fully_shard(block)
        fully_shard(model)
    optimizers = make_optimizer(model, args)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(o, lambda t: min(1.0, 2.0 * (1.0 - t / args.steps)))
        for o in optimizers
    ]
    run = torch.compile(model) if args.compile else model
    if world > 1 and not args.fsdp:
        run = nn.parallel.DistributedDataParallel(run)
    mixed = (
        torch.autocast("cuda", torch.bfloat16)
        if args.device == "cuda"
        else contextlib.nullcontext()
    )
    draw = torch.Generator().manual_seed(args.seed + 1 + rank)
    begin, losses = time.perf_counter(), []
    for step in range(args.steps):
        for _ in range(args.accumulate):
            at = torch.randint(len(data) - args.context - 1, (args.batch,), generator=draw)
            rows = torch.stack([data[i : i + args.context + 1] for i in at]).to(args.device)
            with mixed:
                loss = run(rows[:, :-1], rows[:, 1:]) / args.accumulate
            loss.backward()
        for optimizer, schedule in zip(optimizers, schedules):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(float(loss) * args.accumulate)
        if rank == 0 and (step % 20 == 0 or step == args.steps - 1):
            seconds = time.perf_counter() - begin
            print(f"step {step + 1}: loss {losses[-1]:.3f}, {seconds:.1f} s", flush=True)
    if rank == 0 and hasattr(optimizers[0], "skipped"):
        print(f"skipped steps: {optimizers[0].skipped}")
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
