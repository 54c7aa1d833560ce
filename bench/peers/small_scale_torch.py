#!/usr/bin/env python3
"""small_scale_torch.py - a sweep of Muon on a small GPT in PyTorch, and the same tokens for musec.

    python3 bench/peers/small_scale_torch.py --shards DIR --crops DIR [--lr 0.001,0.003,...]
                                             [--aux-lr X] [--apart SHARE] [--zero]

6 layers of 384, 3 heads of 128, MLP 1536; 300 steps of 64 sequences of 512 tokens, learning rates
falling to 0 over the second half; QK-norm, RoPE, squared ReLU, logits 15 tanh(y / 15), PyTorch's own
starting values; AdamW (0.9, 0.95) on embedding and head, Muon (Nesterov, beta 0.05, five of Keller
Jordan's steps, his shape rule) on the matrices; no weight decay.

Crops at random places of the training shard in --shards (written by musec tokenize) are drawn once
and written to --crops as a shard, in the order in which they are used; the validation shard holds
other documents.  With --apart, the training shard is divided into sequences: a random share of them
is for validation, and the others are used in a new order in each epoch, so the validation sequences
come from documents whose other parts were trained on.  Each begins with 50256, so that it is one
document.  With --zero, out and down start at 0.

Documents run into each other in --crops: the id between them becomes 50255, so that musec sees one
document, cut every 512 tokens, and trains on the same sequences:

    musec train --preset nano --tokenizer gpt2 --data CROPS --device cuda --layers 6 --width 384
        --heads 3 --head 128 --mlp 1536 --max-doc 512 --window-short 511 --window-long 511
        --batch 32768 --micro-batches 1 --steps 300 --cooldown 0.5 --cooldown-to 0 --cap tanh
        --cap-scale 15 --optimizer muon --nesterov yes --shape-rule keller --beta 0.05
        --momentum-init zero --weight-decay 0 --init-qkv 0.577 --init-up 0.577 --init-out 0.577
        --init-down 0.289 --init-embed 1 --init-head 0.0295 --rope-share 1 --rope-base 10000
        --aux-lr 0.001 --aux-beta1 0.9 --lr-down 0.5 --val-every 300 --val-tokens 64956
        --report-every 0 --lr LR

With --apart 0.2 of 2 million tokens it is --val-tokens 409600, with --zero --init-out 0 --init-down 0.
--lr-down 0.5: musec keeps that matrix transposed, and the shape rule would give it the factor 2.
"""
import argparse
import array
import glob
import os
import random
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit("this needs PyTorch")

WIDTH, LAYERS, HEADS, HEAD, VOCAB = 384, 6, 3, 128, 50304
LENGTH, BATCH, STEPS = 512, 64, 300
HEADER, BETWEEN, JOINED = 1024, 50256, 50255


def read_shard(folder, kind):
    """The ids of the first shard of a kind, documents joined, and its header."""
    names = sorted(glob.glob(os.path.join(folder, kind + "_*.bin")))
    if not names:
        sys.exit(f"{folder}: there is no {kind}_*.bin; musec tokenize --out writes them")
    with open(names[0], "rb") as file:
        data = file.read()
    ids = array.array("H", data[HEADER:])
    for i in range(1, len(ids)):
        if ids[i] == BETWEEN:
            ids[i] = JOINED
    return ids, array.array("i", data[:HEADER])


def write_shard(folder, kind, ids, header):
    header = array.array("i", header)
    header[2] = len(ids)
    with open(os.path.join(folder, kind + "_000000.bin"), "wb") as file:
        file.write(header.tobytes() + ids.tobytes())


def make_crops(shards, folder, apart):
    """All sequences of a run, concatenated, and the validation tokens."""
    ids, header = read_shard(shards, "train")
    draw, crops, places = random.Random(1), array.array("H"), []
    if apart > 0:
        known = list(range(0, len(ids) - LENGTH + 1, LENGTH))
        draw.shuffle(known)
        unseen = [known.pop() for _ in range(int(apart * len(known)))]
        if not known or not unseen:
            sys.exit(f"--apart {apart:g}: that leaves nothing to train or to validate on")
        for at in known + unseen:
            ids[at] = BETWEEN
        val = array.array("H")
        for at in unseen:
            val.extend(ids[at : at + LENGTH])
        while len(places) < STEPS * BATCH:
            draw.shuffle(known)
            places += known
    else:
        val, _ = read_shard(shards, "val")
        places = [draw.randrange(len(ids) - LENGTH) for _ in range(STEPS * BATCH)]
    for at in places[: STEPS * BATCH]:
        crops.extend(ids[at : at + LENGTH])
    crops.extend(crops[:LENGTH])  # the last target
    crops[0] = val[0] = BETWEEN
    os.makedirs(folder, exist_ok=True)
    write_shard(folder, "train", crops, header)
    write_shard(folder, "val", val, header)
    return [torch.tensor(x.tolist(), device="cuda") for x in (crops, val)]


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


def rope_tables():
    turn = 10000.0 ** (-torch.arange(HEAD // 2, device="cuda") / (HEAD // 2))
    angle = torch.arange(LENGTH, device="cuda")[:, None] * turn
    return angle.cos()[None, :, None].bfloat16(), angle.sin()[None, :, None].bfloat16()


def rope(x, cos, sin):
    one, two = x.chunk(2, -1)
    return torch.cat([one * cos + two * sin, two * cos - one * sin], -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()

        def linear(columns, rows):
            return nn.Linear(columns, rows, bias=False)

        self.q, self.k, self.v = (linear(WIDTH, WIDTH) for _ in range(3))
        self.out, self.up, self.down = (
            linear(WIDTH, WIDTH), linear(WIDTH, 4 * WIDTH), linear(4 * WIDTH, WIDTH))

    def forward(self, x, tables):
        batch, length, _ = x.shape
        h = norm(x)
        q, k, v = (f(h).view(batch, length, HEADS, HEAD) for f in (self.q, self.k, self.v))
        q, k = rope(norm(q), *tables), rope(norm(k), *tables)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.relu(self.up(norm(x))).square())


@torch.compile
def capped_loss(raw, targets):
    return F.cross_entropy(15 * torch.tanh(raw.float() / 15), targets)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids, targets, tables):
        x = norm(self.embed(ids)).bfloat16()
        for block in self.blocks:
            x = block(x, tables)
        return capped_loss(self.head(norm(x)).view(-1, VOCAB), targets.reshape(-1))


def newton_schulz(x):
    x, turned = x.bfloat16(), x.size(-2) > x.size(-1)
    x = x.mT if turned else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return (x.mT if turned else x).float()


def step_muon(groups, rate):
    """All matrices of a shape at once; the momentum starts from zero."""
    for (rows, cols), (params, momentum) in groups.items():
        grads = torch.stack([p.grad for p in params])
        momentum.lerp_(grads, 0.05)
        update = newton_schulz(grads.lerp(momentum, 0.95))
        update *= -rate * max(1.0, rows / cols) ** 0.5
        torch._foreach_add_(params, list(update.unbind(0)))


def loss_on(model, ids, tables):
    total, count = 0.0, (ids.numel() - 1) // LENGTH
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        for i in range(0, count, BATCH):
            n = min(BATCH, count - i)
            at = slice(i * LENGTH, (i + n) * LENGTH)
            targets = ids[at.start + 1 : at.stop + 1]
            total += n * model(ids[at].view(n, LENGTH), targets, tables).item()
    return total / count


def train(crops, val, rate, aux_rate, zero):
    begin, tables = time.time(), rope_tables()
    torch.manual_seed(0)
    model = Gpt().cuda()
    for block in model.blocks if zero else ():
        nn.init.zeros_(block.out.weight)
        nn.init.zeros_(block.down.weight)
    aux = [*model.embed.parameters(), *model.head.parameters()]
    adamw = torch.optim.AdamW(aux, lr=aux_rate, betas=(0.9, 0.95), weight_decay=0, fused=True)
    groups = {}
    for p in model.blocks.parameters():
        groups.setdefault(tuple(p.shape), ([],))[0].append(p)
    groups = {k: (v[0], torch.zeros(len(v[0]), *k, device="cuda")) for k, v in groups.items()}
    for step in range(STEPS):
        at, now = step * BATCH * LENGTH, min(1.0, 2 * (STEPS - step) / STEPS)
        inputs = crops[at : at + BATCH * LENGTH].view(BATCH, LENGTH)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(inputs, crops[at + 1 : at + 1 + BATCH * LENGTH], tables)
        loss.backward()
        for group in adamw.param_groups:
            group["lr"] = aux_rate * now
        adamw.step()
        with torch.no_grad():
            step_muon(groups, rate * now)
        model.zero_grad(set_to_none=True)
    largest = max(torch.linalg.matrix_norm(w.weight.float(), 2).item()
                  for b in model.blocks for w in (b.up, b.down))
    print(f"lr {rate:g}: train {loss.item():.3f}, validation {loss_on(model, val, tables):.3f}, "
          f"largest MLP norm {largest:.2f}, {time.time() - begin:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shards", required=True, help="what musec tokenize --out wrote")
    parser.add_argument("--crops", required=True, help="folder for the shard of sequences")
    parser.add_argument("--lr", default="0.001,0.003,0.01,0.03,0.1,0.3,0.8", help="[%(default)s]")
    parser.add_argument("--aux-lr", type=float, default=0.001, help="of AdamW [%(default)s]")
    parser.add_argument("--apart", type=float, default=0.0, metavar="SHARE",
                        help="validate on so many of the training sequences, untrained")
    parser.add_argument("--zero", action="store_true", help="out and down start at 0")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this needs a GPU that PyTorch can use")
    crops, val = make_crops(given.shards, given.crops, given.apart)
    for rate in given.lr.split(","):
        train(crops, val, float(rate), given.aux_lr, given.zero)


main()
