#!/usr/bin/env python3
"""gpt_torch.py - forward and backward of the plain GPT of musec bench train, in PyTorch.

    python3 bench/peers/gpt_torch.py [--size small|medium|wide] [--attention flex|sdpa]
                                     [--compile model|block|none]

RMSNorm without weights, QK-norm, RoPE on half of the columns, squared ReLU, logits bounded by
23 sigmoid((y + 5) / 7.5), a head of its own, all in bf16; 32768 tokens in sequences of 2048 (small)
or 4096.  Attention by flex_attention with a window of 1024, and by scaled_dot_product_attention,
which sees all of the sequence and so does more: both are timed, and the faster one is marked.
FLOPs are counted as musec does: 6 (matrix and head parameters) per token, and 12 per head column
and pair of query and visible key, the window being 1024 either way.
"""
import torch
import torch.nn.functional as F
from torch import nn

from torch_timing import HEAD, SIZES, TOKENS, VOCAB, arguments, gemm_peak, median_ms, put, table

WINDOW, EPS, SCALE = 1024, 1.1920929e-07, 0.1


def norm(x):
    return F.rms_norm(x, (x.size(-1),), eps=EPS)


def rope_tables(length, base=1024.0, head=HEAD):
    pairs = head // 4  # half of the columns are rotated
    turn = base ** (-torch.arange(pairs, dtype=torch.float64) / (pairs - 1))
    angle = torch.arange(length, dtype=torch.float64)[:, None] * turn
    still = torch.zeros(length, head // 2 - pairs, dtype=torch.float64)
    angle = torch.cat([angle, still], dim=1).float()
    return angle.cos()[:, None, :], angle.sin()[:, None, :]


def rope(x, cos, sin):  # (batch, length, heads, head)
    one, two = norm(x).float().chunk(2, dim=-1)
    return torch.cat([one * cos + two * sin, two * cos - one * sin], dim=-1).type_as(x)


class Block(nn.Module):
    def __init__(self, width, attend, head, linear):
        super().__init__()

        def weight(rows, share):
            return nn.Parameter(torch.randn(rows, width) * share * width**-0.5)

        self.qkv, self.out = weight(3 * width, 1.0), weight(width, 0.5)
        self.up, self.down = weight(4 * width, 0.5), weight(4 * width, 0.5)
        self.attend, self.head, self.linear = attend, head, linear

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        n = self.linear(norm(x), self.qkv)
        q, k, v = n.view(batch, length, 3, width // self.head, self.head).unbind(2)
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        y = self.attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        x = x + self.linear(y.transpose(1, 2).reshape(batch, length, width), self.out)
        return x + self.linear(self.linear(norm(x), self.up).relu().square(), self.down.T)


class Gpt(nn.Module):
    """The model; `linear` multiplies by weights, and activations have the dtype `dtype`, or that of
    the embedding."""

    def __init__(self, layers, width, length, attend, head=HEAD, vocab=VOCAB, linear=F.linear,
                 dtype=None):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(vocab, width) * 0.005)
        self.head = nn.Parameter(torch.randn(vocab, width) * 0.005)
        self.blocks = nn.ModuleList(Block(width, attend, head, linear) for _ in range(layers))
        self.linear, self.dtype = linear, dtype
        cos, sin = rope_tables(length, head=head)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, ids, targets):
        x = norm(F.embedding(ids, self.embed).to(self.dtype or self.embed.dtype))
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = self.linear(norm(x), self.head).float()
        logits = 23.0 * torch.sigmoid((logits + 5.0) / 7.5)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def attention(kind, length, compiled):
    """A function of q, k and v, (batch, heads, length, HEAD) each."""
    if kind == "sdpa":
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=SCALE)
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def sees(b, h, i, j):
        return (j <= i) & (i - j <= WINDOW)

    mask = create_block_mask(sees, B=None, H=None, Q_LEN=length, KV_LEN=length,
                             device="cuda")
    flex = torch.compile(flex_attention) if not compiled else flex_attention
    return lambda q, k, v: flex(q, k, v, block_mask=mask, scale=SCALE)


def flops(layers, width, length):
    pairs = sum(min(i, WINDOW) + 1 for i in range(length)) * (TOKENS // length)
    return 6.0 * (12.0 * layers * width**2 + VOCAB * width) * TOKENS + 12.0 * width * pairs * layers


def build(size, kind, how):
    layers, width, length = SIZES[size]
    torch._dynamo.reset()
    attend = attention(kind, length, how != "none")
    model = Gpt(layers, width, length, attend).cuda().bfloat16()
    model.cos, model.sin = (t.cuda() for t in rope_tables(length))  # they stay float32
    if how == "block":
        for block in model.blocks:
            block.compile()
    return torch.compile(model) if how == "model" else model


def bench(size, kinds, how, peak):
    layers, width, length = SIZES[size]
    work = flops(layers, width, length)
    ids = torch.randint(50257, (TOKENS // length, length + 1), device="cuda")
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    best = None
    for kind in kinds:
        model = build(size, kind, how)

        def both():
            model(inputs, targets).backward()
            for p in model.parameters():
                p.grad = None

        def forward():
            with torch.no_grad():
                model(inputs, targets)

        torch.cuda.reset_peak_memory_stats()
        shape = "%s, %d tokens" % (size, TOKENS)
        ms = median_ms(both)
        put("forward + backward, " + kind, shape, ms, flops=work, size=size,
            tokens_s=1e3 * TOKENS / ms, of_peak=work / ms * 1e-9 / peak,
            window=WINDOW if kind == "flex" else None, compile=how,
            gib=torch.cuda.max_memory_allocated() / 2**30)
        if best is None or ms < best[1]:
            best = (kind, ms)
        ms = median_ms(forward)
        put("forward, " + kind, shape, ms, flops=work / 3.0, size=size, tokens_s=1e3 * TOKENS / ms)
        del model, both, forward
        torch.cuda.empty_cache()
    put("the best, " + best[0], shape, best[1], flops=work, size=size,
        tokens_s=1e3 * TOKENS / best[1], of_peak=work / best[1] * 1e-9 / peak)


def main():
    def extend(parser):
        parser.add_argument("--attention", choices=["flex", "sdpa"], help="[both]")
        parser.add_argument("--compile", choices=["model", "block", "none"], default="model",
                            help="what torch.compile is given [model]; block: one layer, sooner")

    sizes, given = arguments(__doc__, extend)
    kinds = [given.attention] if given.attention else ["flex", "sdpa"]
    peak = gemm_peak()
    for size in sizes:
        bench(size, kinds, given.compile, peak)
    table()


if __name__ == "__main__":
    main()
