#!/usr/bin/env python3
"""hf_numpy.py - checks exports of musec in NumPy: their files, and the logits computed from them.

Run by tests/cli/export.sh in its directory: NAME-hf are exports, NAME.npy our logits of ids.txt.
The forward pass below is written from the formulas of docs/training.md in float64, and reads
config.json and model.safetensors alone; it shares no code with the exported model's file.  Our
logits are computed in float32, and only its rounding may separate them: the bound is the 1e-4 that
an export promises, and each of the MISTAKES must change a logit by ten times as much.
"""
import json
import struct

import numpy as np

from judge import check, ends

BOUND = 1e-4


def tensors(path):
    """Reads a file by the format: 8 bytes of length, a JSON header, the data without gaps."""
    raw = open(path, "rb").read()
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
    check(header.pop("__metadata__") == {"format": "pt"}, f"{path}: metadata")
    out, end = {}, 0
    for name, t in header.items():
        begin, stop = t["data_offsets"]
        check(begin == end, f"{path}: {name} follows the one before")
        end, part = stop, data[begin:stop]
        if t["dtype"] == "BF16":
            values = (np.frombuffer(part, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            check(t["dtype"] == "F32", f"{path}: {name} is {t['dtype']}")
            values = np.frombuffer(part, "<f4")
        out[name] = values.reshape(t["shape"])
    check(end == len(data), f"{path}: all of the file")
    return out


def shapes(c):
    """The shapes of the tensors of a model of this config, by name."""
    d, a, m = c["hidden_size"], c["num_attention_heads"] * c["head_dim"], c["intermediate_size"]
    want = {"model.embed_tokens.weight": (c["vocab_size"], d)}
    if not c["tie_word_embeddings"]:
        want["lm_head.weight"] = (c["vocab_size"], d)
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for x in "qkv":
            want[f"{layer}self_attn.{x}_proj.weight"] = (a, d)
        want[layer + "self_attn.o_proj.weight"] = (d, a)
        want[layer + "mlp.up_proj.weight"] = (m, d)
        want[layer + "mlp.down_proj.weight"] = (d, m)
        if c["head_gates"]:
            want[layer + "self_attn.gate_proj.weight"] = (c["num_attention_heads"], c["gate_width"])
        if c["x0_mix"]:
            want[layer + "mix"] = (1, 2)
    return want


def norm(x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rope(x, c):
    """x: (tokens, head_dim)."""
    n, half = c["rope_pairs"], c["head_dim"] // 2
    out = x.copy()
    for j in range(n):
        angle = np.arange(len(x)) * c["rope_base"] ** (-j / (n - 1))
        p, r = (2 * j, 2 * j + 1) if c["rope_adjacent"] else (j, j + half)
        out[:, p] = x[:, p] * np.cos(angle) + x[:, r] * np.sin(angle)
        out[:, r] = x[:, r] * np.cos(angle) - x[:, p] * np.sin(angle)
    return out


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def attention(n, w, c, window):
    T, width = len(n), c["head_dim"]
    i, j = np.arange(T)[:, None], np.arange(T)[None, :]
    hidden = (j > i) | (j < i - window)
    outputs = []
    for h in range(c["num_attention_heads"]):
        q, k, v = (n @ w[f"self_attn.{x}_proj.weight"][h * width:(h + 1) * width].T for x in "qkv")
        if c["qk_norm"]:
            q, k = norm(q, c["norm_eps"]), norm(k, c["norm_eps"])
        logits = c["attention_scale"] * (rope(q, c) @ rope(k, c).T)
        if c["attention_softcap"] > 0:
            logits = c["attention_softcap"] * np.tanh(logits / c["attention_softcap"])
        logits[hidden] = -np.inf
        p = np.exp(logits - logits.max(1, keepdims=True))
        y = p / p.sum(1, keepdims=True) @ v
        if c["head_gates"]:
            y = y * sigmoid(n[:, :c["gate_width"]] @ w["self_attn.gate_proj.weight"][h])[:, None]
        outputs.append(y)
    return np.concatenate(outputs, axis=1) @ w["self_attn.o_proj.weight"].T


def forward(c, weights, ids):
    weights = {name: w.astype(np.float64) for name, w in weights.items()}
    eps = c["norm_eps"]
    x = x0 = norm(weights["model.embed_tokens.weight"][ids], eps)
    for i, window in enumerate(c["attention_windows"]):
        start = f"model.layers.{i}."
        w = {name[len(start):]: v for name, v in weights.items() if name.startswith(start)}
        if c["x0_mix"]:
            x = w["mix"][0, 0] * x + w["mix"][0, 1] * x0
        x = x + attention(norm(x, eps), w, c, window)
        hidden = np.maximum(norm(x, eps) @ w["mlp.up_proj.weight"].T, 0) ** 2
        x = x + hidden @ w["mlp.down_proj.weight"].T
    head = weights["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
    raw, scale = norm(x, eps) @ head.T, c["logit_cap_scale"]
    if c["logit_cap"] == "tanh":
        return scale * np.tanh(raw / scale)
    if c["logit_cap"] == "sigmoid":
        return scale * sigmoid((raw + c["logit_cap_shift"]) / c["logit_cap_width"])
    return raw


MISTAKES = {  # wrong values in the config.json of plain
    "windows": lambda c: {"attention_windows": [w + 1 for w in c["attention_windows"]]},
    "no long layer": lambda c: {"attention_windows": [min(c["attention_windows"])] * 3},
    "scale": lambda c: {"attention_scale": 2 * c["attention_scale"]},
    "no QK-norm": lambda c: {"qk_norm": False},
    "RoPE's base": lambda c: {"rope_base": 2 * c["rope_base"]},
    "RoPE's pairs": lambda c: {"rope_pairs": c["rope_pairs"] + 1},
    "RoPE's pairing": lambda c: {"rope_adjacent": True},
    "cap": lambda c: {"logit_cap": "tanh"},
    "its width": lambda c: {"logit_cap_width": 7.0},
}


def judge(name):
    path = name if name == "full-5" else f"{name}-hf"
    c = json.load(open(f"{path}/config.json"))
    weights = tensors(f"{path}/model.safetensors")
    check({n: w.shape for n, w in weights.items()} == shapes(c), f"{name}: names and shapes")
    ours = np.load(f"{name}.npy")
    off = np.abs(forward(c, weights, ids) - ours).max()
    check(off <= BOUND, f"{name}: a logit is off by {off:g}")
    print(f"{name}: NumPy's logits from the export are within {off:.1e} of ours")
    return c, weights, ours


ids = np.loadtxt("ids.txt", dtype=int)
config, plain, logits = judge("plain")
judge("bare")
full, _, _ = judge("full")
early, _, _ = judge("full-5")
for mistake, change in MISTAKES.items():
    off = np.abs(forward({**config, **change(config)}, plain, ids) - logits).max()
    check(off >= 10 * BOUND, f"a mistake in {mistake} would not be seen: {off:g}")

# config.json has the settings of the run
check(config["attention_windows"] == [5, 20, 5], "windows by layer")
check(full["attention_windows"] == [30, 9] and early["attention_windows"] == [3, 2], "of the stage")
check(config["model_type"] == "musec" and config["architectures"] == ["MusecForCausalLM"], "class")
check(config["auto_map"] == {"AutoConfig": "configuration_musec.MusecConfig",
                             "AutoModelForCausalLM": "modeling_musec.MusecForCausalLM"}, "auto_map")
check(config["torch_dtype"] == "float32" and config["max_position_embeddings"] == 64, "dtype")
check(config["musec"]["step"] == 20 and float(config["musec"]["config"]["lr"]) > 0, "origin")
check(not {"data", "val_data", "init_from", "device"} & set(config["musec"]["config"]), "no paths")
generation = json.load(open("plain-hf/generation_config.json"))
check(generation["suppress_tokens"] == list(range(257, 320)), "padding is never drawn")
check(generation["bos_token_id"] == generation["eos_token_id"] == 256, "start and end")

# bf16: each weight rounded to nearest, ties to even, which NumPy has no type for
half = tensors("half/model.safetensors")
check(json.load(open("half/config.json"))["torch_dtype"] == "bfloat16", "bf16: config")
for name, w in plain.items():
    bits = w.view(np.uint32).astype(np.uint64)
    nearest = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    check(np.array_equal(half[name], nearest), f"bf16: {name}")

ends()
