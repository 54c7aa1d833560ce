#!/usr/bin/env python3
"""peak_torch.py - what PyTorch reaches on this GPU: a product in bf16 and f16, and a copy.

    python3 bench/peers/peak_torch.py

--size is taken and counts for nothing: peaks have none.
"""
import torch

from torch_timing import arguments, gemm_peak, median_ms, put, table


def main():
    arguments(__doc__)
    gemm_peak()
    n = 8192
    a = torch.randn(n, n, device="cuda", dtype=torch.float16)
    b, c = torch.randn_like(a), torch.empty_like(a)
    put("gemm f16", "%d^3" % n, median_ms(lambda: torch.mm(a, b, out=c)), flops=2.0 * n**3)
    batch = torch.randn(66, 768, 768, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(batch)
    put("bmm bf16", "66 x 768^3", median_ms(lambda: torch.bmm(batch, batch, out=out)),
        flops=66 * 2.0 * 768**3)
    x = torch.randn(1 << 28, device="cuda")  # 1 GiB
    y = torch.empty_like(x)
    put("copy f32", "1 GiB", median_ms(lambda: y.copy_(x)), nbytes=2.0 * x.nbytes)
    table()


if __name__ == "__main__":
    main()
