#!/usr/bin/env python3
"""muon_torch.py - optimizer steps in PyTorch over the matrices that musec bench step has.

    python3 bench/peers/muon_torch.py [--size small|medium|wide]
                                      [--only ns5|ssc|triton|optim]

A model of L layers of width w has 4 L matrices of w x w and 2 L of 4w x w.  Timed are

    ns5      five quintic Newton-Schulz steps in bf16, all matrices of a shape as one batch, plain
             and compiled by torch.compile
    muon     the whole step: momentum, ns5, weights in float32 and their copy in bf16
    triton   both with Polar Express and symmetric products in Triton (muon_triton.py): a X added by
             the product with X, or a I to the polynomial ("diagonal"); what is around the products
             plain or compiled
    ssc      the paper's soft clip, K = 5 coupled steps in their literal form, the same ways
    optim    torch.optim.Muon: step() over the same matrices, one by one as it does

FLOPs are those computed: Newton-Schulz 5 (4 n r^2 + 2 r^3), the coupled steps 5 (6 r^3) +
4 n r^2, with r the smaller side of a matrix and n the larger, all by full products; one triangle of
symmetric ones in Triton, 5 (3 n r^2 + r^3), its tiles across the diagonal not counted twice.
"""
import sys

import torch

try:
    import muon_triton
except ImportError as why:
    muon_triton = None
    print("no rows of Triton: %s" % why, file=sys.stderr)

from torch_timing import SIZES, arguments, gemm_peak, median_ms, put, table

QUINTIC = (3.4445, -4.7750, 2.0315)
STEPS, THRESHOLD = 5, 0.25
WRONG = 0.03  # bf16 leaves 0.011
PARTS = ("ns5", "ssc", "triton", "optim")


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


def operators(only):
    """(part, name, name of the step, function) of those to be timed."""
    known = [("ns5", "ns5", "muon step", ns5), ("ssc", "ssc", "soft clip step", ssc)]
    if muon_triton is not None:
        known += [("triton", "ns5 in Triton", "muon step in Triton", muon_triton.ns5),
                  ("triton", "ns5 in Triton (diagonal)", "muon step in Triton (diagonal)",
                   muon_triton.ns5_diagonal)]
    return [one for one in known if only in (None, one[0])]


def operator_flops(part, shapes):
    total = 0.0
    for count, rows, cols in shapes:
        r, n = min(rows, cols), max(rows, cols)
        if part == "ns5":
            total += count * STEPS * (4.0 * n * r * r + 2.0 * r**3)
        elif part == "triton":
            total += count * STEPS * (3.0 * n * r * r + r**3)
        else:
            total += count * (3 * STEPS * 2.0 * r**3 + 4.0 * n * r * r)
    return total


def bench(size, only):
    layers, width, _ = SIZES[size]
    shapes = [(4 * layers, width, width), (2 * layers, 4 * width, width)]
    shape = "%d layers of %d" % (layers, width)
    grads = [torch.randn(*s, device="cuda") * 0.02 for s in shapes]
    weights = [torch.randn_like(g) * 0.02 for g in grads]
    copies = [w.bfloat16() for w in weights]
    momenta = [g.clone() for g in grads]
    for part, name, step_name, operator in operators(only):
        more = {"size": size, "flops": operator_flops(part, shapes)}
        if part == "triton":
            more["error"] = max(muon_triton.relative_error(operator, g) for g in grads)
            if not more["error"] < WRONG:
                sys.exit("%s is wrong: relative error %g" % (name, more["error"]))
        for how, make in (("plain", plain), ("compiled", compiled)):
            torch._dynamo.reset()
            alone = make(operator)
            # around kernels that it does not see, torch.compile would compile a step for each call
            step = step_of(alone) if part == "triton" else make(step_of(operator))
            put("%s, %s" % (name, how), shape,
                median_ms(lambda: [alone(g) for g in grads]), **more)
            put("%s, %s" % (step_name, how), shape,
                median_ms(lambda: [step(*a) for a in zip(weights, copies, momenta, grads)]), **more)
    if only in (None, "optim") and hasattr(torch.optim, "Muon"):
        bench_optim(weights, grads, shape, size=size, flops=operator_flops("ns5", shapes))


def bench_optim(weights, grads, shape, **more):
    params = []
    for group, of in zip(weights, grads):
        for w, g in zip(group, of):
            params.append(torch.nn.Parameter(w))
            params[-1].grad = g
    optimizer = torch.optim.Muon(params, lr=1e-6, weight_decay=0.0, ns_steps=STEPS)
    put("torch.optim.Muon.step", shape, median_ms(optimizer.step), **more)


def main():
    def extend(parser):
        parser.add_argument("--only", choices=PARTS, help="time these rows [all]")

    sizes, given = arguments(__doc__, extend)
    gemm_peak()
    with torch.no_grad():
        for size in sizes:
            bench(size, given.only)
            torch.cuda.empty_cache()
    table()


if __name__ == "__main__":
    main()
