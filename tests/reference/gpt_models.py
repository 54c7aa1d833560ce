"""gpt_models.py - the GPTs of gpt_reference.py, whose docstring has the formulas."""
import math

import torch


def sign_at(index):
    """1 or -1: the highest bit of SplitMix64's output number `index`."""
    mask = (1 << 64) - 1
    z = (index + 1) * 0x9e3779b97f4a7c15 & mask
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & mask
    z = (z ^ z >> 27) * 0x94d049bb133111eb & mask
    return -1.0 if (z ^ z >> 31) >> 63 else 1.0


class Gpt:
    """One pass.  Each part that a mutant below changes is a method."""

    def __init__(self, cfg, weights, batch, dtype=torch.float64):
        self.cfg, self.dtype = cfg, dtype
        self.w = {name: value.to(dtype).requires_grad_() for name, value in weights.items()}
        self.inputs, self.targets, self.doc = batch["inputs"], batch["targets"], batch["doc"]
        self.T = len(self.inputs)

    # ---- parts ----

    def eps(self):
        return self.cfg["norm_eps"]

    def norm(self, x):
        return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + self.eps())

    def window(self, layer):
        is_long = self.cfg["long_layers"] >> layer & 1
        return self.cfg["window_long"] if is_long else self.cfg["window_short"]

    def visible(self, i, j, window):
        return self.doc[i] <= j and i - window <= j and j <= i

    def mask(self, layer):
        out = torch.zeros(self.T, self.T, dtype=torch.bool)
        for i in range(self.T):
            for j in range(self.T):
                out[i, j] = self.visible(i, j, self.window(layer))
        return out

    def n_pairs(self):
        return math.floor(self.cfg["head"] / 2 * self.cfg["rope_share"] + 0.5)

    def growths(self):
        windows = self.cfg["windows"]
        return list(zip(windows[:-1], windows[1:]))

    def frequency(self, j):
        pairs = self.n_pairs()
        f = 1.0 if pairs == 1 else self.cfg["rope_base"] ** (-j / (pairs - 1))
        for old, new in self.growths():
            f = self.stretched(f, old, new)
        return f

    def stretched(self, f, old, new):
        m = min(max((old * f / (2 * math.pi) - 1) / 31, 0.0), 1.0)
        return f * (old / new + m * (1 - old / new))

    def pair(self, j):
        if self.cfg["rope_adjacent"]:
            return 2 * j, 2 * j + 1
        return j, j + self.cfg["head"] // 2

    def angle(self, i, j):
        return i * self.frequency(j)

    def rope(self, x):
        """x: (T, head) of one head."""
        columns = list(x.unbind(dim=1))
        for j in range(self.n_pairs()):
            at_p, at_r = self.pair(j)
            angles = torch.tensor([self.angle(i, j) for i in range(self.T)], dtype=torch.float64)
            cos, sin = torch.cos(angles).to(self.dtype), torch.sin(angles).to(self.dtype)
            p, r = columns[at_p], columns[at_r]
            columns[at_p], columns[at_r] = p * cos + r * sin, r * cos - p * sin
        return torch.stack(columns, dim=1)

    def qk_norm(self, x):
        return self.norm(x) if self.cfg["qk_norm"] else x

    def scale(self):
        c = self.cfg["attn_scale"] or 1.0 / math.sqrt(self.cfg["head"])
        for old, new in self.growths():
            c = self.grown_scale(c, old, new)
        return c

    def grown_scale(self, c, old, new):
        return c * (1 + 0.2 * math.log(new / old))

    def softcap(self, logits):
        c = self.cfg["attn_softcap"]
        return c * torch.tanh(logits / c) if c > 0 else logits

    def seen_logits(self, logits, mask):
        """The logits whose largest one is reported."""
        return logits[mask]

    def gate_input(self, x, n):
        return n

    def gate(self, x, name):
        """The logistic function of the gate's logits: (T, rows of the weight)."""
        return torch.sigmoid(x[:, :self.cfg["gate_width"]] @ self.w[name].T)

    def attn_scale(self, layer, which):
        return self.w["layer.%d.attn.scales" % layer][0, which] if self.cfg["attn_scales"] else 1.0

    def with_values(self, layer, n, v):
        table = self.cfg["value_table"][layer]
        if table == 0:
            return v
        gate = 2 * self.gate(n, "layer.%d.attn.value_gate" % layer)
        rows = self.w["value.%d" % (table - 1)][self.inputs]
        return v + gate.repeat_interleave(self.cfg["head"], dim=1) * rows

    def offset_columns(self):
        turned = {column for j in range(self.n_pairs()) for column in self.pair(j)}
        return [c for c in range(self.cfg["head"]) if c not in turned]

    def offset(self, layer, k):
        """k: (T, head) of one head."""
        if not (self.cfg["key_offset"] and self.cfg["long_layers"] >> layer & 1):
            return k
        columns = list(k.unbind(dim=1))
        for c in self.offset_columns():
            columns[c] = torch.cat([columns[c][:1], columns[c][:-1]])
        return torch.stack(columns, dim=1)

    def attention(self, layer, x):
        """The term that is added to x, and the largest logit of each head."""
        n, mask = self.norm(x), self.mask(layer)
        q, k, v = (n @ (self.attn_scale(layer, 0) * self.w["layer.%d.attn.%s" % (layer, c)]).T
                   for c in "qkv")
        v = self.with_values(layer, n, v)
        outputs, largest = [], []
        for h in range(self.cfg["heads"]):
            of_head = slice(h * self.cfg["head"], (h + 1) * self.cfg["head"])
            qh, kh = (self.rope(self.qk_norm(a[:, of_head])) for a in (q, k))
            kh = self.offset(layer, kh)
            logits = self.scale() * (qh @ kh.T)
            largest.append(self.seen_logits(logits, mask).max().item())
            capped = self.softcap(logits).masked_fill(~mask, -math.inf)
            y = torch.softmax(capped, dim=1) @ v[:, of_head]
            if self.cfg["head_gates"]:
                u = self.w["layer.%d.attn.gate" % layer][h]
                s = self.gate_input(x, n)[:, :self.cfg["gate_width"]] @ u
                y = y * torch.sigmoid(s)[:, None]
            outputs.append(y)
        o = self.attn_scale(layer, 1) * self.w["layer.%d.attn.o" % layer]
        return torch.cat(outputs, dim=1) @ o.T, largest

    def activation(self, x):
        return torch.relu(x) ** 2

    def mlp(self, layer, x):
        up, down = self.w["layer.%d.mlp.up" % layer], self.w["layer.%d.mlp.down" % layer]
        return self.activation(self.norm(x) @ up.T) @ down

    def mix(self, layer, x, x0):
        r, a = self.w["layer.%d.mix" % layer][0, :2]
        return r * x + a * x0

    def mix2(self, layer, x, x02):
        return x + self.w["layer.%d.mix" % layer][0, 2] * x02

    def smear(self, e):
        gate = self.w["smear"][0, 0] * self.gate(e, "smear_gate")
        return torch.cat([e[:1], e[1:] + gate[1:] * e[:-1]])

    def skip(self, layer, x, x0, kept):
        """kept: x after each layer."""
        gate = 2 * self.gate(x0, "layer.%d.skip_gate" % layer)
        gate = gate * torch.sigmoid(self.w["layer.%d.skip" % layer])
        return x + gate * kept[self.cfg["skip_from"][layer] - 1]

    def backed_out(self, x, kept):
        return x - self.w["backout"][0, 0] * kept[self.cfg["backout"] - 1]

    def x0_for_next(self, layer, x0, x):
        return x0

    def embedding(self):
        return self.w["head"] if self.cfg["tied"] else self.w["embed"]

    def cap(self, raw):
        scale = self.cfg["cap_scale"]
        if self.cfg["cap"] == "tanh":
            return scale * torch.tanh(raw / scale)
        if self.cfg["cap"] == "sigmoid":
            return scale * torch.sigmoid((raw + self.cfg["cap_shift"]) / self.cfg["cap_width"])
        return raw

    def terms(self, z, t):
        """The unweighted loss terms of row t: one for each following token that exists."""
        lse = torch.logsumexp(z[t], dim=0)
        return [lse - z[t, self.targets[t + k]]
                for k in range(len(self.cfg["weights"])) if t + k < self.T]

    def grad_scale(self):
        return self.cfg["grad_scale"]

    # ---- the whole ----

    def stream(self):
        """The final state, and the largest logits by layer and head."""
        e = self.embedding()[self.inputs]
        x = x0 = self.norm(self.smear(e) if self.cfg["smear"] else e)
        x02 = self.norm(self.w["embed2"][self.inputs]) if self.cfg["embed2"] else None
        max_logit, kept = [], []
        for layer in range(self.cfg["layers"]):
            if self.cfg["skip_from"][layer]:
                x = self.skip(layer, x, x0, kept)
            if self.cfg["x0_mix"]:
                x = self.mix(layer, x, x0)
            if self.cfg["embed2"]:
                x = self.mix2(layer, x, x02)
            added, largest = self.attention(layer, x)
            max_logit.append(largest)
            x = x + added
            x = x + self.mlp(layer, x)
            x0 = self.x0_for_next(layer, x0, x)
            kept.append(x)
        if self.cfg["backout"]:
            x = self.backed_out(x, kept)
        return x, max_logit

    def results(self):
        x, max_logit = self.stream()
        z = self.cap(self.norm(x) @ self.w["head"].T)
        objective = loss = torch.zeros((), dtype=self.dtype)
        for t in range(self.T):
            terms = self.terms(z, t)
            objective = objective + sum(w * l for w, l in zip(self.cfg["weights"], terms))
            loss = loss + terms[0]
        (self.grad_scale() * objective).backward()
        out = {"logits": z.detach(), "sums": torch.stack([objective.detach(), loss.detach()]),
               "max_logit": torch.tensor(max_logit, dtype=torch.float64)}
        for name, w in self.w.items():
            out["grad." + name] = torch.zeros_like(w) if w.grad is None else w.grad
        return {name: value.to(torch.float64) for name, value in out.items()}


class Small(Gpt):
    """With bigrams, paired heads, XSA, mixes after attention and MLP, and dynamic coefficients:

    g_t = bigram[(36313 token_t xor 27191 token_(t-1)) mod (rows - 1)] sign[(token_t xor
          token_(t-1)) mod 8192], t > 0; for t = 0 the last row and sign[0]
    x0[0:columns] += b_0 g, which changes x0 for all that reads it
    per layer:  attention reads norm(the output of attn_from) in layers after that
                x <- r x + p Attn + a x0;  x[0:columns] += b g  (layers > 0);  x <- r' x + p' MLP
    paired:     row 2t + u of a sequence of 2T rows holds heads u H/2 .. of token t; windows and
                documents count these rows; head h has position 2t + (h mod 2)
    XSA:        y_h <- y_h - tanh(alpha_h) (y_h . u) u, u = v_h / max(|v_h|, 1e-4), before the gate
    value_ve:   a value gate reads [n[0:g/2], row[0:g/2]]
    MUDD:       coef(x) = (gelu(x up^T) down^T + bias) / 10
    """

    # ---- bigrams ----

    def rows_of_pairs(self):
        t, n = self.inputs, self.cfg["bigram"]
        return [n - 1] + [(36313 * a ^ 27191 * b) % (n - 1) for b, a in zip(t[:-1], t[1:])]

    def signs(self):
        t = self.inputs
        mixed = [0] + [(a ^ b) % 8192 for b, a in zip(t[:-1], t[1:])]
        width = self.cfg["bigram_width"]
        return torch.tensor([[sign_at(row * width + j) for j in range(width)] for row in mixed],
                            dtype=self.dtype)

    def bigram(self):
        return self.w["bigram"][self.rows_of_pairs()] * self.signs()

    def with_bigram(self, x, b, g):
        width = self.cfg["bigram_width"]
        return torch.cat([x[:, :width] + b * g, x[:, width:]], dim=1)

    # ---- attention ----

    def is_paired(self, layer):
        return bool(self.cfg["paired_layers"] >> layer & 1)

    def is_dynamic(self, layer):
        return self.cfg["mudd"] > 0 and layer == self.cfg["layers"] - 1

    def pair_position(self, t, h):
        return 2 * t + h % 2

    def turned(self, x, positions):
        """x: (T, head) of one head, each row at its position."""
        columns = list(x.unbind(dim=1))
        for j in range(self.n_pairs()):
            at_p, at_r = self.pair(j)
            angles = torch.tensor([self.angle(i, j) for i in positions], dtype=torch.float64)
            cos, sin = torch.cos(angles).to(self.dtype), torch.sin(angles).to(self.dtype)
            p, r = columns[at_p], columns[at_r]
            columns[at_p], columns[at_r] = p * cos + r * sin, r * cos - p * sin
        return torch.stack(columns, dim=1)

    def pair_visible(self, i, j, window):
        return 2 * self.doc[i // 2] <= j and i - window <= j and j <= i

    def place(self, row, slot):
        """The token and head in that place of the longer sequence."""
        return row // 2, row % 2 * (self.cfg["heads"] // 2) + slot

    def paired(self, layer, q, k, v):
        """y by head, (T, head) each, of q, k and v by head; and the largest logits."""
        heads, rows = self.cfg["heads"], range(2 * self.T)
        mask = torch.tensor([[self.pair_visible(i, j, self.window(layer)) for j in rows]
                             for i in rows])
        y, largest = [[None] * self.T for _ in range(heads)], [0.0] * heads
        q, k = ([self.turned(self.qk_norm(a), [self.pair_position(t, h) for t in range(self.T)])
                 for h, a in enumerate(x)] for x in (q, k))
        for slot in range(heads // 2):
            places = [self.place(row, slot) for row in rows]
            qs, ks, vs = (torch.stack([x[h][t] for t, h in places]) for x in (q, k, v))
            logits = self.scale() * (qs @ ks.T)
            top = self.seen_logits(logits, mask).max().item()
            out = torch.softmax(self.softcap(logits).masked_fill(~mask, -math.inf), dim=1) @ vs
            for (t, h), row in zip(places, out):
                y[h][t], largest[h] = row, top
        return [torch.stack(of_head) for of_head in y], largest

    def alone(self, layer, q, k, v):
        y, largest, mask = [], [], self.mask(layer)
        for qh, kh, vh in zip(q, k, v):
            qh, kh = self.rope(self.qk_norm(qh)), self.offset(layer, self.rope(self.qk_norm(kh)))
            logits = self.scale() * (qh @ kh.T)
            largest.append(self.seen_logits(logits, mask).max().item())
            y.append(torch.softmax(self.softcap(logits).masked_fill(~mask, -math.inf), dim=1) @ vh)
        return y, largest

    def exclude(self, alpha, y, v):
        unit = v / torch.clamp(v.norm(dim=1, keepdim=True), min=1e-4)
        return y - torch.tanh(alpha) * (y * unit).sum(dim=1, keepdim=True) * unit

    def value_gate_input(self, n, row):
        half = self.cfg["gate_width"] // 2
        return torch.cat([n[:, :half], row[:, :half]], dim=1)

    def with_values(self, layer, n, v):
        table = self.cfg["value_table"][layer]
        if table == 0 or not self.cfg["value_ve"]:
            return super().with_values(layer, n, v)
        row = self.w["value.%d" % (table - 1)][self.inputs]
        gate = 2 * self.gate(self.value_gate_input(n, row), "layer.%d.attn.value_gate" % layer)
        return v + gate.repeat_interleave(self.cfg["head"], dim=1) * row

    def dynamic_values(self, layer, v, m, states):
        row = self.w["value.%d" % (self.cfg["value_table"][layer] - 1)][self.inputs]
        half = v.shape[1] // 2
        gate = torch.cat([m[:, 6:7].expand(-1, half), m[:, 7:8].expand(-1, half)], dim=1)
        return v + gate * row + sum(m[:, i:i + 1] * s for i, s in enumerate(states))

    def attend(self, layer, source, m, states):
        """What Gpt.attention returns, of a source that need not be x."""
        n, at, heads = self.norm(source), "layer.%d.attn." % layer, self.cfg["heads"]
        q, k, v = (n @ (self.attn_scale(layer, 0) * self.w[at + c]).T for c in "qkv")
        v = (self.dynamic_values(layer, v, m, states) if self.is_dynamic(layer)
             else self.with_values(layer, n, v))
        q, k, v = (x.chunk(heads, dim=1) for x in (q, k, v))
        y, largest = (self.paired if self.is_paired(layer) else self.alone)(layer, q, k, v)
        if self.cfg["xsa"] and not self.is_paired(layer):
            y = [self.exclude(self.w[at + "alpha"][0, h], y[h], v[h]) for h in range(heads)]
        y = torch.cat(y, dim=1)
        if self.cfg["head_gates"]:
            y = y * self.gate(n, at + "gate").repeat_interleave(self.cfg["head"], dim=1)
        return y @ (self.attn_scale(layer, 1) * self.w[at + "o"]).T, largest

    # ---- the stream ----

    def coefs(self, which, x):
        at = "mudd.%d." % which
        hidden = torch.nn.functional.gelu(x @ self.w[at + "up"].T)
        return 0.1 * (hidden @ self.w[at + "down"].T + self.w[at + "bias"])

    def late(self, kept, x, layer):
        source = self.cfg["attn_from"]
        return kept[source - 1] if source and layer >= source else x

    def mixes(self, layer, m):
        """r, p, a; b; r', p' of the layer, as columns or scalars."""
        if self.is_dynamic(layer):
            return [m[:, i:i + 1] for i in range(8, 14)]
        at = "layer.%d." % layer
        b = [self.w[at + "bigram"][0, 0]] if at + "bigram" in self.w else [0.0]
        attn = list(self.w[at + "attn.mix"][0]) if at + "attn.mix" in self.w else [1.0, 0.0, 0.0]
        return attn + b + list(self.w[at + "mlp.mix"][0])

    def layer(self, layer, x, x0, g, kept):
        entered = x
        if self.cfg["skip_from"][layer]:
            x = self.skip(layer, x, x0, kept)
        m = states = None
        if self.is_dynamic(layer):
            late = kept[self.cfg["attn_from"] - 1]
            m, states = self.coefs(0, x), [x0, late, x]
            x = (1 + m[:, 5:6]) * x + m[:, 3:4] * x0 + m[:, 4:5] * late
        r, p, a, b, r2, p2 = self.mixes(layer, m)
        largest = [0.0] * self.cfg["heads"]  # without attention
        if not self.cfg["bare_layers"] >> layer & 1:
            added, largest = self.attend(layer, self.late(kept, x, layer), m, states)
            x = r * x + p * added + a * x0
            if layer > 0 and self.cfg["bigram"]:
                x = self.with_bigram(x, b, g)
        return entered, r2 * x + p2 * self.mlp(layer, x), largest

    def final(self, x, x0, entered, kept):
        n = self.coefs(1, x)
        source = next(s for s in self.cfg["skip_from"] if s) - 1
        states = [x0, kept[self.cfg["attn_from"] - 1], entered, self.w["value.0"][self.inputs],
                  kept[source]]
        return x + sum(n[:, i:i + 1] * s for i, s in enumerate(states))

    def stream(self):
        e = self.embedding()[self.inputs]
        x, g = self.norm(self.smear(e) if self.cfg["smear"] else e), None
        if self.cfg["bigram"]:
            g = self.bigram()
            x = self.with_bigram(x, self.w["layer.0.bigram"][0, 0], g)
        x0, max_logit, kept = x, [], []
        for layer in range(self.cfg["layers"]):
            entered, x, largest = self.layer(layer, x, x0, g, kept)
            max_logit.append(largest)
            kept.append(x)
        return (self.final(x, x0, entered, kept) if self.cfg["mudd"] else x), max_logit


def model_of(cfg):
    return Small if cfg["post_mix"] else Gpt
