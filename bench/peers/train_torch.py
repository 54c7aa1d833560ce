#!/usr/bin/env python3
"""train_torch.py - the same run by musec train and by an optimizer of musec.torch in PyTorch.

    python3 bench/peers/train_torch.py --musec PROGRAM [--precision f32,bf16] [--device cuda|cpu]
                                       [--bound X] [--floor] [option of musec train ...]

A preset of musec train, with what its options change ([--preset nano --steps 200]), and PyTorch's
gpt_torch.Gpt start from the same weights, see the same tokens in the same order, and have the same
optimizer with the same settings and schedule.  Of each step both print the loss before the update; at
the end the largest difference of all steps.  The text is that of this tree's own sources, as one
document that is cut every max-doc tokens.

A precision is that of both sides.  f32: activations, products and the optimizer's operands in
float32, without TF32.  bf16: activations and the operands of products are bf16, weights, their
gradients and sums float32, and the optimizer's operands what musec train takes there.  The order of
sums differs, and so does what is rounded between two products, so the two runs part as any two do
that differ by a rounding.  How far that is tells --floor: PyTorch's run once more, from weights that
differ by a part in 10^7 (f32), or with v of every layer moved by at most its last bit (bf16).  Noise
of single steps averages out: the mean losses of the last quarter are compared, too.

Ends with a line of JSON for each precision; exits with 1 if a difference of a step is above --bound.
"""
import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("this needs PyTorch")

import musec.torch as mt
from musec.torch import blocks

from gpt_torch import Gpt

ROOT = Path(__file__).resolve().parents[2]
START = 256  # of a document, among bytes
NAMES = {"qkv": ("attn.q", "attn.k", "attn.v"), "out": ("attn.o",),
         "up": ("mlp.up",), "down": ("mlp.down",)}
CLASSES = {"soft-musec": mt.SoftMusec, "musec": mt.Musec, "muon": mt.Muon, "spectra": mt.Spectra,
           "sgdm": mt.SGDM, "adamw": mt.AdamW, "lion": mt.Lion}
# What gpt_torch.Gpt and train() below have; a run with anything else is refused.
FIXED = {"tokenizer": "byte", "doc_rest": "keep", "micro_batches": 1, "mtp": "1", "stages": "",
         "extension": 0, "momentum_warmup": 0, "momentum_cooldown": 0, "long_layers": "all",
         "qk_norm": "yes", "tied": "no", "head_gates": "no", "x0_mix": "no", "activation": "relu2",
         "cap": "sigmoid", "cap_scale": 23.0, "cap_shift": 5.0, "cap_width": 7.5,
         "attn_softcap": 0.0, "rope_base": 1024.0, "rope_share": 0.5, "rope_pairs": "split",
         "norm_eps": 1.1920929e-07, "lr_qk": 1.0, "lr_vo": 1.0, "lr_up": 1.0, "lr_down": 1.0}


# ---- the run of musec train ----------------------------------------------------------------------


def settings_of(musec, options):
    """All settings of a run, as musec train itself says them."""
    done = subprocess.run([musec, "train", *options, "--explain", "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{musec} train --explain: {done.stderr.strip()}")
    cfg = json.loads(done.stdout)["config"]
    wrong = [f"{key} is {cfg[key]!r}, not {want!r}" for key, want in FIXED.items()
             if cfg[key] != want]
    if cfg["width"] != cfg["heads"] * cfg["head"] or cfg["mlp"] != 4 * cfg["width"]:
        wrong.append("width is not heads x head, or mlp not 4 x width")
    if cfg["batch"] % cfg["max_doc"] or cfg["window_long"] < cfg["max_doc"] - 1:
        wrong.append("batch is no multiple of max_doc, or a window is shorter than that")
    if cfg["optimizer"] not in CLASSES:
        wrong.append(f"optimizer is {cfg['optimizer']}, not one of {', '.join(CLASSES)}")
    if wrong:
        sys.exit("PyTorch's model and loop do not have these settings: " + "; ".join(wrong))
    return cfg


def make_text(n):
    """At least n bytes of the sources, over and over if need be."""
    files = sorted(p for name in ("src", "include", "docs", "python", "bench", "examples")
                   for p in (ROOT / name).rglob("*")
                   if p.suffix in (".c", ".h", ".cu", ".cuh", ".md", ".py") and p.is_file())
    text = b"".join(p.read_bytes() for p in files).replace(b"<|endoftext|>", b"<eot>")
    if not text:
        sys.exit(f"{ROOT} has no sources to train on")
    return text * (n // len(text) + 1)


def write_safetensors(path, tensors):
    """Tensors by name, in float32."""
    header, data, at = {}, [], 0
    for name, t in tensors.items():
        raw = t.detach().float().cpu().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def named_weights(model):
    """The parameters of the model, by their names in musec's checkpoints."""
    yield "embed", model.embed
    for i, block in enumerate(model.blocks):
        for ours, theirs in NAMES.items():
            parts = getattr(block, ours).chunk(len(theirs))
            yield from ((f"layer.{i}.{name}", part) for name, part in zip(theirs, parts))
    yield "head", model.head


def run_musec(musec, options, device, precision, cfg, text, weights):
    """The losses of its steps, and how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        data, init, out = (Path(folder) / name for name in ("text", "init.safetensors", "run"))
        data.write_bytes(text)
        write_safetensors(init, weights)
        command = [musec, "train", *options, "--device", device, "--precision", precision,
                   "--data", data, "--init-from", init, "--out", out, "--quiet",
                   "--val-every", "0", "--val-tokens", cfg["batch"], "--report-every", "0"]
        begin = time.time()
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              check=False)
        took = time.time() - begin
        if done.returncode != 0:
            raise RuntimeError(f"{musec} train: {done.stderr.strip() or done.stdout.strip()}")
        lines = (out / "log.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines], took


# ---- the run of PyTorch --------------------------------------------------------------------------


class Bf16Linear(torch.autograd.Function):
    """x W^T of a float32 W that is rounded to bf16, with a float32 gradient of W."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return F.linear(x, w.bfloat16())

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        rows = grad.flatten(0, -2).float()  # of bf16 numbers: products are exact in TF32 as well
        return grad @ w.bfloat16(), rows.T @ x.flatten(0, -2).float()


class Jitter(torch.autograd.Function):
    """Moves every number by at most its last bit of bf16."""

    @staticmethod
    def forward(ctx, x):
        return (x.float() * (1.0 + (torch.rand_like(x, dtype=torch.float32) - 0.5) / 128)).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad


def make_model(cfg, device, precision, jitter=False):
    torch.manual_seed(0)
    narrow = precision == "bf16"

    def attend(q, k, v):
        if jitter and narrow:
            v = Jitter.apply(v)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                              scale=cfg["attn_scale"] or None)

    model = Gpt(cfg["layers"], cfg["width"], cfg["max_doc"], attend, cfg["head"], cfg["vocab"],
                Bf16Linear.apply if narrow else F.linear, torch.bfloat16 if narrow else None)
    if jitter and not narrow:
        with torch.no_grad():
            for w in model.parameters():
                w.mul_(1.0 + 1e-7 * torch.randn_like(w))
    return model.to(device)


def make_optimizer(cfg, model, precision):
    kind = CLASSES[cfg["optimizer"]]
    renamed = {"momentum": 1.0 - cfg["beta"], "adjust_lr_fn": cfg["shape_rule"],
               "ns_steps": cfg["ns_iters"], "ns_coefficients": cfg["ns_coeffs"],
               "betas": (cfg["beta1"], cfg["beta2"])}
    decay = cfg["weight_decay"]
    if isinstance(decay, dict):
        if len(set(decay.values())) > 1:
            sys.exit("PyTorch's groups here have one weight decay, and the run has several")
        decay = decay["matrix"]
    if precision == "f32" and cfg["operands"] == "auto":
        renamed["operands"] = "f32"  # as musec train has it
    known = {**cfg, **renamed, "weight_decay": decay, "report_every": 0, "nonfinite": None}
    options = {name: known[name] for name in kind.library_defaults if name in known}
    matrices = [p for block in model.blocks for p in (block.out, block.up, block.down)]
    groups = [
        {"params": [block.qkv for block in model.blocks], "blocks": blocks.split(3)},
        {"params": matrices},
        {"params": [model.embed, model.head], "role": "adamw", "lr": cfg["aux_lr"],
         "betas": (cfg["aux_beta1"], cfg["aux_beta2"]), "eps": cfg["aux_eps"],
         "weight_decay": cfg["aux_weight_decay"]},
    ]
    return kind(groups, **options)


def rate_at(cfg):
    """The share of the learning rate in a step: it falls linearly over the cooldown."""
    steps = cfg["steps"]
    length = int(cfg["cooldown"] * steps + 0.5)
    begin = steps - length

    def share(step):
        if length == 0 or step < begin:
            return 1.0
        t = (step - begin) / length
        return 1.0 - t + cfg["cooldown_to"] * t

    return share


def run_torch(cfg, device, precision, text, jitter=False):
    """The losses of its steps, and how long they took."""
    model = make_model(cfg, device, precision, jitter)
    optimizer = make_optimizer(cfg, model, precision)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate_at(cfg))
    tokens, length = cfg["batch"], cfg["max_doc"]
    ids = torch.frombuffer(bytearray(text[: cfg["steps"] * tokens]), dtype=torch.uint8)
    ids = torch.cat([torch.tensor([START]), ids.long()]).to(device)
    factor = tokens / 8.0 if cfg["grad_reduction"] == "sum8" else 1.0
    losses, begin = [], time.time()
    for step in range(cfg["steps"]):
        at = step * tokens
        loss = model(ids[at : at + tokens].view(-1, length),
                     ids[at + 1 : at + 1 + tokens].view(-1, length))
        (loss * factor).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    return losses, time.time() - begin


# ---- both ----------------------------------------------------------------------------------------


def largest(a, b):
    """The largest difference, and its step."""
    return max((abs(x - y) if x == x and y == y else float("inf"), i + 1)
               for i, (x, y) in enumerate(zip(a, b)))


def of_the_end(losses):
    """The mean of the last quarter."""
    last = losses[-max(1, len(losses) // 4) :]
    return sum(last) / len(last)


def compare(cfg, given, options, device, precision, text):
    torch.backends.cuda.matmul.allow_tf32 = precision == "bf16"
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    weights = dict(named_weights(make_model(cfg, "cpu", "f32")))
    ours, took = run_musec(given.musec, options, device, given.musec_precision or precision, cfg,
                           text, weights)
    theirs, torch_took = run_torch(cfg, device, precision, text)
    if len(ours) != cfg["steps"]:
        raise RuntimeError(f"musec train ended after {len(ours)} steps")
    print(f"\n{precision} on {device}: {cfg['optimizer']}, {cfg['layers']} layers of {cfg['width']}, "
          f"{cfg['steps']} steps of {cfg['batch']} tokens")
    print(f"{'step':>6} {'musec train':>12} {'PyTorch':>12} {'difference':>12}")
    every = max(1, cfg["steps"] // 10)
    for i in sorted({0, *range(every - 1, cfg["steps"], every)}):
        print(f"{i + 1:6d} {ours[i]:12.6f} {theirs[i]:12.6f} {theirs[i] - ours[i]:12.2e}")
    worst, step = largest(ours, theirs)
    row = {"peer": "torch " + torch.__version__, "name": "train", "optimizer": cfg["optimizer"],
           "preset": cfg["preset"], "precision": precision, "device": device, "steps": cfg["steps"],
           "largest_difference": worst, "at_step": step,
           "of_means": of_the_end(theirs) - of_the_end(ours),
           "last_losses": [ours[-1], theirs[-1]], "musec_s": took, "torch_s": torch_took}
    held = worst <= given.bound
    print(f"largest difference {worst:.2e}, at step {step}; of the means of the last quarter "
          f"{row['of_means']:.2e}; bound {given.bound:g}: {'held' if held else 'EXCEEDED'}")
    if given.floor:
        again = run_torch(cfg, device, precision, text, True)[0]
        row["floor"], row["floor_of_means"] = (largest(theirs, again)[0],
                                               of_the_end(again) - of_the_end(theirs))
        print(f"two runs of PyTorch: largest difference {row['floor']:.2e}, of the means "
              f"{row['floor_of_means']:.2e}")
    print(json.dumps(row), flush=True)
    return held


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--musec", default="build/musec", help="the program [%(default)s]")
    parser.add_argument("--device", help="of both [cuda if there is a GPU, else cpu]")
    parser.add_argument("--precision", help="f32, bf16 or both [both on a GPU, else f32]")
    parser.add_argument("--musec-precision", help="another one for musec train")
    parser.add_argument("--bound", type=float, default=2e-3, help="on a difference [%(default)g]")
    parser.add_argument("--floor", action="store_true", help="how far two runs part by themselves")
    given, options = parser.parse_known_args()
    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    defaults = {"--preset": "nano", "--steps": "200"}
    options += [word for key, value in defaults.items() if key not in options
                for word in (key, value)]
    cfg = settings_of(given.musec, options)
    # the last tenth is for validation
    text = make_text(int(1.2 * (cfg["steps"] + 1) * cfg["batch"]))
    held = True
    for precision in (given.precision or ("f32,bf16" if device != "cpu" else "f32")).split(","):
        try:
            held &= compare(cfg, given, options, device, precision, text)
        except (RuntimeError, ValueError, OSError) as why:
            print(f"{precision}: {why}", flush=True)
            held = False
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
