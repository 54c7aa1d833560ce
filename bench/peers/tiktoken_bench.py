#!/usr/bin/env python3
"""tiktoken_bench.py - times OpenAI's tiktoken on one text, for musec bench tokenize.

    tiktoken_bench.py VOCAB TEXT

VOCAB is r50k_base.tiktoken, encoder.json, vocab.bpe or the directory of one of them; nothing is
fetched.  Prints the milliseconds of one encoding on one thread, and the number of ids.
"""
import base64
import json
import os
import sys
import time

import tiktoken

PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def from_tiktoken(path):
    with open(path, "rb") as f:
        lines = [line.split() for line in f if line.strip()]
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def from_encoder(path):
    printing = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printing]
    byte_of = {chr(b): b for b in printing} | {chr(256 + i): b for i, b in enumerate(others)}
    with open(path, encoding="utf-8") as f:
        ids = json.load(f)
    return {bytes(byte_of[c] for c in text): i for text, i in ids.items() if i < 50256}


def ranks(path):
    directory = path if os.path.isdir(path) else os.path.dirname(path) or "."
    for name, read in (("r50k_base.tiktoken", from_tiktoken), ("encoder.json", from_encoder)):
        if os.path.exists(os.path.join(directory, name)):
            return read(os.path.join(directory, name))
    sys.exit("tiktoken_bench.py: %s: no r50k_base.tiktoken and no encoder.json" % directory)


def main():
    vocabulary, path = sys.argv[1:]
    coder = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks(vocabulary),
                              special_tokens={"<|endoftext|>": 50256})
    with open(path, encoding="utf-8", newline="") as f:
        text = f.read()
    coder.encode_ordinary(text[:100000])  # fills its caches
    begin = time.perf_counter()
    n = len(coder.encode_ordinary(text))
    print(1e3 * (time.perf_counter() - begin), n)


main()
