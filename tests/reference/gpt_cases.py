"""gpt_cases.py - the cases of gpt_reference.py: configs, lengths of documents, and random weights."""
import math

import numpy as np
import torch

COMMON = {
    "layers": 2, "width": 24, "heads": 2, "head": 12, "mlp": 40, "vocab": 37,
    "qk_norm": 1, "tied": 0, "head_gates": 0, "x0_mix": 0, "gate_width": 5,
    "cap": "none", "cap_scale": 3.0, "cap_shift": 0.0, "cap_width": 1.0,
    "attn_scale": 0.0, "attn_softcap": 0.0,
    "rope_base": 1024.0, "rope_share": 0.5, "rope_adjacent": 0,
    "long_layers": 2, "window_short": 3, "window_long": 9, "norm_eps": 1.1920928955078125e-07,
    "weights": [1.0], "grad_scale": 1.0,
    # of the paper's full models; layers and tables are counted from 1, and 0 is none
    "embed2": 0, "smear": 0, "attn_scales": 0, "key_offset": 0, "backout": 0, "spare": 0,
    "value_table": [0] * 5, "skip_from": [0] * 5, "windows": [],
    "bigram": 0, "bigram_width": 0, "attn_from": 0, "xsa": 0, "post_mix": 0, "value_ve": 0,
    "mudd": 0, "paired_layers": 0, "bare_layers": 0,
}
SIGMOID = {"cap": "sigmoid", "cap_scale": 23.0, "cap_shift": 5.0, "cap_width": 7.5}
TANH = {"cap": "tanh", "cap_scale": 3.0}

# name: what differs from COMMON, and the lengths of the documents
CASES = {
    "sigmoid_split": ({**SIGMOID, "grad_scale": 0.125}, [11, 1, 14, 3]),
    "tanh_adjacent_tied": ({**TANH, "rope_adjacent": 1, "rope_share": 1.0, "tied": 1,
                            "attn_scale": 0.45, "weights": [1.0, 0.5], "long_layers": 1},
                           [1, 13, 9]),
    "plain_softcap": ({"qk_norm": 0, "attn_softcap": 1.5, "head": 16, "rope_share": 1.0,
                       "weights": [1.0, 0.5, 0.25], "rope_base": 100.0}, [12, 1, 13]),
    "gates_mix_tied": ({**SIGMOID, "head_gates": 1, "x0_mix": 1, "tied": 1,
                        "weights": [1.0, 0.5, 0.25], "grad_scale": 0.125}, [10, 14, 1, 6]),
    "gates_wide_window": ({**TANH, "head_gates": 1, "rope_adjacent": 1, "window_short": 30,
                           "window_long": 100, "weights": [1.0, 0.5]}, [9, 12, 1, 4]),
    "mix_plain_tied": ({"x0_mix": 1, "qk_norm": 0, "tied": 1, "attn_scale": 0.2,
                        "rope_share": 1.0, "long_layers": 3}, [13, 11, 1]),
    "everything": ({**SIGMOID, "head_gates": 1, "x0_mix": 1, "heads": 3, "head": 8,
                    "rope_adjacent": 1, "rope_share": 0.5, "attn_softcap": 2.0,
                    "attn_scale": 0.6, "weights": [1.0, 0.5, 0.25], "window_short": 1,
                    "long_layers": 1, "norm_eps": 0.05, "grad_scale": 0.125}, [15, 1, 16, 8]),
    "one_pair_one_document": ({"rope_share": 1 / 6, "long_layers": 0, "norm_eps": 1e-5}, [23]),
    "three_tokens": ({**TANH, "layers": 1, "width": 8, "heads": 1, "head": 8, "mlp": 8,
                      "vocab": 11, "weights": [1.0, 0.5, 0.25, 0.125]}, [2, 1]),
    "smear_embed2": ({**SIGMOID, "smear": 1, "x0_mix": 1, "embed2": 1, "grad_scale": 0.125},
                     [9, 1, 12]),
    "skips_backout": ({**TANH, "layers": 4, "skip_from": [0, 1, 0, 2], "backout": 3,
                       "long_layers": 4}, [14, 7]),
    "backout_first": ({"backout": 1, "skip_from": [0, 1, 0, 0]}, [9, 8]),
    "values_offset": ({**SIGMOID, "layers": 3, "value_table": [1, 2, 1, 0], "key_offset": 1,
                       "long_layers": 5, "attn_scales": 1, "head_gates": 1}, [8, 1, 15]),
    "offset_adjacent": ({"key_offset": 1, "rope_adjacent": 1, "long_layers": 3, "qk_norm": 0,
                         "attn_scales": 1, "value_table": [0, 1, 0, 0]}, [17]),
    "yarn": ({**TANH, "windows": [40, 45, 60], "window_long": 60, "rope_base": 20.0}, [24]),
    "full_model": ({**SIGMOID, "layers": 4, "width": 24, "heads": 3, "head": 8, "tied": 0,
                    "head_gates": 1, "x0_mix": 1, "embed2": 1, "smear": 1, "attn_scales": 1,
                    "key_offset": 1, "backout": 3, "spare": 3, "value_table": [1, 2, 0, 1],
                    "skip_from": [0, 0, 2, 1], "windows": [4, 9], "long_layers": 9,
                    "attn_scale": 0.4, "weights": [1.0, 0.5, 0.25], "grad_scale": 0.125,
                    "norm_eps": 1e-3}, [13, 1, 18, 5]),
    "small_bigram": ({**TANH, "post_mix": 1, "bigram": 41, "bigram_width": 7}, [9, 12]),
    "small_pairs": ({"post_mix": 1, "paired_layers": 3, "heads": 6, "head": 8, "head_gates": 1,
                     "rope_adjacent": 1, "window_short": 5, "long_layers": 2}, [8, 1, 9]),
    "small_xsa": ({**SIGMOID, "post_mix": 1, "xsa": 1, "head_gates": 1, "attn_scales": 1,
                   "gate_width": 6, "value_ve": 1, "value_table": [0, 1, 0, 0, 0]}, [7, 8]),
    "small_late": ({"post_mix": 1, "layers": 3, "bare_layers": 2, "skip_from": [0, 1, 0, 0, 0],
                    "attn_from": 1}, [14]),
    "small_model": ({**SIGMOID, "layers": 5, "width": 24, "heads": 4, "head": 6, "head_gates": 1,
                     "smear": 1, "attn_scales": 1, "key_offset": 1, "gate_width": 6,
                     "bigram": 53, "bigram_width": 7, "attn_from": 3, "xsa": 1, "post_mix": 1,
                     "value_ve": 1, "mudd": 5, "paired_layers": 9, "bare_layers": 4,
                     "value_table": [0, 1, 0, 2, 3], "skip_from": [0, 0, 2, 0, 0],
                     "windows": [4, 9], "long_layers": 18, "attn_scale": 0.4, "rope_adjacent": 1,
                     "weights": [1.0, 0.5, 0.25], "grad_scale": 0.125, "norm_eps": 1e-3},
                    [11, 1, 13, 4]),
}
SMALL_EMBEDDING = ("one_pair_one_document",)  # cases in which eps matters


def shapes(cfg):
    width, inner = cfg["width"], cfg["heads"] * cfg["head"]
    if not cfg["tied"]:
        yield "embed", (cfg["vocab"], width)
    yield "head", (cfg["vocab"], width)
    if cfg["embed2"]:
        yield "embed2", (cfg["vocab"], width)
    for table in range(max(cfg["value_table"])):
        yield "value.%d" % table, (cfg["vocab"], inner)
    if cfg["bigram"]:
        yield "bigram", (cfg["bigram"], cfg["bigram_width"])
    for k in range(2 if cfg["mudd"] else 0):
        n = (14, 5)[k]
        yield "mudd.%d.up" % k, (cfg["mudd"], width)
        yield "mudd.%d.down" % k, (n, cfg["mudd"])
        yield "mudd.%d.bias" % k, (1, n)
    if cfg["smear"]:
        yield "smear", (1, 1)
        yield "smear_gate", (1, cfg["gate_width"])
    if cfg["backout"]:
        yield "backout", (1, 1)
    if cfg["spare"]:
        yield "spare", (1, cfg["spare"])
    for layer in range(cfg["layers"]):
        at = "layer.%d." % layer
        if cfg["skip_from"][layer]:
            yield at + "skip", (1, 1)
            yield at + "skip_gate", (1, cfg["gate_width"])
        dynamic = cfg["mudd"] and layer == cfg["layers"] - 1
        bare = cfg["bare_layers"] >> layer & 1
        if cfg["post_mix"] and not dynamic:
            yield at + "mlp.mix", (1, 2)
            if not bare:
                yield at + "attn.mix", (1, 3)
            if not bare and cfg["bigram"]:
                yield at + "bigram", (1, 1)
        if not bare:
            yield from attention_shapes(cfg, layer, at, dynamic)
        if cfg["x0_mix"]:
            yield at + "mix", (1, 3 if cfg["embed2"] else 2)
        yield at + "mlp.up", (cfg["mlp"], width)
        yield at + "mlp.down", (cfg["mlp"], width)


def attention_shapes(cfg, layer, at, dynamic):
    width, inner = cfg["width"], cfg["heads"] * cfg["head"]
    if cfg["xsa"] and not cfg["paired_layers"] >> layer & 1:
        yield at + "attn.alpha", (1, cfg["heads"])
    if cfg["attn_scales"]:
        yield at + "attn.scales", (1, 2)
    if cfg["value_table"][layer] and not dynamic:
        yield at + "attn.value_gate", (cfg["heads"], cfg["gate_width"])
    for c in "qkv":
        yield at + "attn." + c, (inner, width)
    yield at + "attn.o", (width, inner)
    if cfg["head_gates"]:
        yield at + "attn.gate", (cfg["heads"], cfg["gate_width"])


def draw_weight(rng, case, cfg, name, shape):
    """Float32 numbers, large enough that every part of the model matters."""
    kind = "value" if name.startswith("value.") else name.rsplit(".", 1)[-1]
    deviation = {"embed": 1.0, "head": 0.4, "q": 1.2, "k": 1.2, "v": 1.0, "o": 1.0,
                 "gate": 0.8, "mix": 0.03, "up": 1.0, "down": 0.5, "embed2": 1.0, "value": 1.0,
                 "smear": 0.1, "smear_gate": 0.8, "skip": 0.1, "skip_gate": 0.8, "scales": 0.1,
                 "value_gate": 0.8, "backout": 0.1, "spare": 1.0, "bigram": 0.7, "alpha": 0.5,
                 "bias": 1.0}[kind]
    if kind in "qkvo" or kind in ("up", "down"):
        deviation /= math.sqrt(cfg["width"])
    if kind == "embed" and case in SMALL_EMBEDDING:
        deviation = 0.005
    w = deviation * rng.standard_normal(shape)
    if kind == "mix":
        w += np.array([[1.05, 0.1, 0.2]])[:, :shape[1]]
    if name == "mudd.0.bias":
        w += np.array([[0, 0, 0, 0, 0, 0, 10, 10, 10, 10, 0, 1, 10, 10]])
    if kind in ("smear", "skip", "scales", "backout"):
        w += {"smear": 0.7, "skip": -0.8, "scales": 0.8, "backout": 0.5}[kind]
    return torch.from_numpy(w.astype(np.float32))


def make_case(number, case):
    changes, lengths = CASES[case]
    cfg = {**COMMON, **changes}
    rng = np.random.RandomState(20260101 + number)  # its stream never changes
    weights = {name: draw_weight(rng, case, cfg, name, shape) for name, shape in shapes(cfg)}
    stream = rng.randint(0, cfg["vocab"], size=sum(lengths) + 1)
    doc = [sum(lengths[:d]) for d, length in enumerate(lengths) for _ in range(length)]
    batch = {"inputs": stream[:-1].tolist(), "targets": stream[1:].tolist(), "doc": doc}
    return cfg, weights, batch
