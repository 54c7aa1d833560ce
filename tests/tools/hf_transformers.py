#!/usr/bin/env python3
"""hf_transformers.py - loads, runs and trains exports of musec in Hugging Face's transformers.

Run by tests/cli/export.sh in its directory: NAME-hf are exports, NAME.npy our logits of ids.txt.
"""
import os
import subprocess

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from judge import check, ends

BOUND = 1e-4  # what an export promises in float32


def load(path, **more):
    return AutoModelForCausalLM.from_pretrained(path, trust_remote_code=True, **more).eval()


def logits(model, ids, **more):
    with torch.no_grad():
        return model(torch.tensor(ids), **more).logits


def off(a, b):
    return float(np.abs(np.asarray(a, dtype=np.float64) - b).max())


print(f"torch {torch.__version__}, transformers {transformers.__version__}")
ids = [int(line) for line in open("ids.txt")]
for name, path in ("plain", "plain-hf"), ("full", "full-hf"), ("full-5", "full-5"), ("bare", "bare-hf"):
    model, ours = load(path), np.load(f"{name}.npy")
    largest = off(logits(model, [ids])[0], ours)
    check(largest <= BOUND, f"{name}: a logit is off by {largest:g}")
    print(f"{name}: transformers' logits are within {largest:.1e} of ours")
    # one token at a time with the cache
    cached = model(torch.tensor([ids[:1]]), use_cache=True)
    cache, rows = cached.past_key_values, [cached.logits[0, -1].detach()]
    for token in ids[1:]:
        step = model(torch.tensor([[token]]), past_key_values=cache, use_cache=True)
        cache = step.past_key_values
        rows.append(step.logits[0, -1].detach())
    check(off(torch.stack(rows), ours) <= BOUND, f"{name}: through the cache")
    # two sequences of unequal length, the shorter one padded on its left
    n = 25
    batch = [ids, [256] * (len(ids) - n) + ids[:n]]
    mask = torch.tensor([[1] * len(ids), [0] * (len(ids) - n) + [1] * n])
    both = logits(model, batch, attention_mask=mask)
    check(off(both[0], ours) <= BOUND, f"{name}: the longer of a batch")
    check(off(both[1, -n:], ours[:n]) <= BOUND, f"{name}: the shorter of a batch, padded")
    # the loss of the next token, and gradients for every weight
    model.train()
    model(torch.tensor([ids]), labels=torch.tensor([ids])).loss.backward()
    check(all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters()), "gradients")
    out = model.eval()(torch.tensor([ids]), labels=torch.tensor([ids]))
    want = -np.log([np.exp(row[t] - row.max()) / np.exp(row - row.max()).sum()
                    for row, t in zip(ours, ids[1:])]).mean()
    check(abs(out.loss.item() - want) <= BOUND, f"{name}: loss {out.loss.item()}, not {want}")
    model.save_pretrained(f"{name}-saved")
    saved = load(f"{name}-saved")
    check(off(logits(saved, [ids])[0], ours) <= BOUND, f"{name}: saved and loaded again")

# generate() and musec sample choose the same most likely tokens, up to the trained length
model, tokenizer = load("plain-hf"), AutoTokenizer.from_pretrained("plain-hf", trust_remote_code=True)
prompt = tokenizer("The ", return_tensors="pt")
check(prompt["input_ids"].tolist() == [[256, *b"The "]], "the start, then bytes")
for more in {}, {"use_cache": False}:
    drawn = model.generate(**prompt, max_new_tokens=40, do_sample=False, **more)[0]
    text = tokenizer.decode(drawn, skip_special_tokens=True)
    theirs = subprocess.run([os.environ["MUSEC"], "sample", "plain", "--prompt", "The ", "--tokens",
                             "40", "--temperature", "0"], stdout=subprocess.PIPE, check=True).stdout
    theirs = theirs.decode(errors="replace").split("\n<|endoftext|>")[0].rstrip("\n")
    check(text.rstrip("\n") == theirs, f"generate: {text!r}, sample: {theirs!r}")
torch.manual_seed(0)
many = model.generate(**prompt, max_new_tokens=50, do_sample=True, temperature=5.0, num_return_sequences=8)
check(int(many.max()) <= 256, "ids that pad the vocabulary are not drawn")
half = load("half").to(torch.bfloat16)
# rounding of 2^-9 in weights and activations through three layers; logits lie within 0 and 23
check(off(logits(half, [ids])[0], np.load("plain.npy")) <= 0.5, "bf16: near")

# the tokenizers: any text becomes our ids, and is decoded again
texts = ["", "Hello world", " two  blanks\n\ttab", "déjà vu, 日本語 🙂", "it's 3.14\r\n  x", "a\u00a0b\u200bc", "<|endo"]
for text in texts:
    got = tokenizer(text)["input_ids"]
    check(got == [256, *text.encode()], f"bytes of {text!r}: {got}")
    check(tokenizer.decode(got, skip_special_tokens=True) == text, f"text of {text!r}")
if os.path.isdir("ids-text"):
    tokenizer = AutoTokenizer.from_pretrained("ids-text", trust_remote_code=True)
    vocab = os.environ.get("MUSEC_DATA", os.environ["MUSEC_SOURCE"] + "/../shared/data") + "/gpt2"
    for text in texts:
        ours = subprocess.run([os.environ["MUSEC"], "encode", "--vocab", vocab], input=text.encode(),
                              stdout=subprocess.PIPE, check=True).stdout
        got = tokenizer(text)["input_ids"]
        check(got == [50256, *map(int, ours.split())], f"GPT-2's ids of {text!r}: {got}")
        check(tokenizer.decode(got, skip_special_tokens=True) == text, f"text of {text!r}")

ends()
