#!/usr/bin/env python3
"""muon_torch.py - optimizer steps in PyTorch over the matrices that musec bench step has.

    python3 bench/peers/muon_torch.py [--size small|medium|wide]

A model of L layers of width w has 4 L matrices of w x w and 2 L of 4w x w.  Timed are

    ns5      five quintic Newton-Schulz steps in bf16, all matrices of a shape as one batch, plain
             and compiled by torch.compile
    muon     the whole step: momentum, ns5, weights in float32 and their copy in bf16
    ssc      the paper's soft clip, K = 5 coupled steps as they are written, likewise
    torch.optim.Muon   step() over the same matrices, one by one as it does

FLOPs are those that are done, full products throughout: Newton-Schulz 5 (4 n r^2 + 2 r^3), the
coupled steps 5 (6 r^3) + 4 n r^2, with r the smaller side of a matrix and n the larger.
"""
import torch

from torch_timing import SIZES, arguments, gemm_peak, median_ms, put, table

QUINTIC = (3.4445, -4.7750, 2.0315)
STEPS, THRESHOLD = 5, 0.25


def ns5(g):
    """(batch, rows, cols) -> nearly orthogonal, in bf16."""
    a, b, c = QUINTIC
    x = g.bfloat16()
    turned = x.size(-2) > x.size(-1)
    if turned:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(STEPS):
        gram = x @ x.mT
        poly = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, poly, x, beta=a)
    return x.mT if turned else x


def ssc(m):
    """The coupled iteration: D A^(-1/2) X, A = X X^T + D^2 I, products in bf16."""
    x = m.float()
    turned = x.size(-2) > x.size(-1)
    if turned:
        x = x.mT
    low = x.bfloat16()
    eye = torch.eye(x.size(-2), device=m.device)
    gram = (low @ low.mT).float() + THRESHOLD**2 * eye
    norm = gram.norm(dim=(-2, -1), keepdim=True)
    y, z = (gram / norm).bfloat16(), eye.bfloat16().expand_as(gram).contiguous()
    three = (3.0 * eye).bfloat16().expand_as(gram)
    for _ in range(STEPS):
        t = torch.baddbmm(three, z, y, beta=0.5, alpha=-0.5)
        y, z = y @ t, t @ z
    out = (z @ low) * (THRESHOLD / norm.sqrt()).bfloat16()
    return out.mT if turned else out


def plain(function):
    return function


def compiled(function):
    return torch.compile(function, dynamic=False)  # once for each shape


def step_of(operator):
    def step(weight, copy, momentum, grad):
        momentum.lerp_(grad, 0.05)
        weight.add_(operator(momentum), alpha=-1e-6)
        copy.copy_(weight)
    return step


def operator_flops(name, shapes):
    total = 0.0
    for count, rows, cols in shapes:
        r, n = min(rows, cols), max(rows, cols)
        if name == "ns5":
            total += count * STEPS * (4.0 * n * r * r + 2.0 * r**3)
        else:
            total += count * (3 * STEPS * 2.0 * r**3 + 4.0 * n * r * r)
    return total


def bench(size):
    layers, width, _ = SIZES[size]
    shapes = [(4 * layers, width, width), (2 * layers, 4 * width, width)]
    shape = "%d layers of %d" % (layers, width)
    grads = [torch.randn(*s, device="cuda") * 0.02 for s in shapes]
    weights = [torch.randn_like(g) * 0.02 for g in grads]
    copies = [w.bfloat16() for w in weights]
    momenta = [g.clone() for g in grads]
    for name, operator in (("ns5", ns5), ("ssc", ssc)):
        flops = operator_flops(name, shapes)
        for how, make in (("plain", plain), ("compiled", compiled)):
            torch._dynamo.reset()
            alone, step = make(operator), make(step_of(operator))
            put("%s, %s" % (name, how), shape,
                median_ms(lambda: [alone(g) for g in grads]), flops=flops, size=size)
            put("%s step, %s" % ("muon" if name == "ns5" else "soft clip", how), shape,
                median_ms(lambda: [step(*a) for a in zip(weights, copies, momenta, grads)]),
                flops=flops, size=size)
    params = []
    for group, of in zip(weights, grads):
        for w, g in zip(group, of):
            params.append(torch.nn.Parameter(w))
            params[-1].grad = g
    if hasattr(torch.optim, "Muon"):
        optimizer = torch.optim.Muon(params, lr=1e-6, weight_decay=0.0, ns_steps=STEPS)
        put("torch.optim.Muon.step", shape, median_ms(optimizer.step),
            flops=operator_flops("ns5", shapes), size=size)


def main():
    sizes, _ = arguments(__doc__)
    gemm_peak()
    with torch.no_grad():
        for size in sizes:
            bench(size)
            torch.cuda.empty_cache()
    table()


if __name__ == "__main__":
    main()
