"""modeling_musec.py - the GPT that musec trains, for transformers.

Written into an export by `musec export RUN --to hf`, and loaded from there by

    AutoModelForCausalLM.from_pretrained(DIRECTORY, trust_remote_code=True)

With norm(x) = x / sqrt(mean(x^2) + eps), which has no weights, and no biases anywhere:

    x = x0 = norm(embedding of the tokens)
    per layer:  x <- r x + a x0                                  (x0_mix)
                n  = norm(x);  q, k, v = projections of n, cut into heads
                q, k <- rope(norm(q)), rope(norm(k))             (norm: qk_norm)
                y  = softmax(scale q k^T) v                      (window; softcap)
                y_h <- y_h sigmoid(gate_h(n[0:gate_width]))      (head_gates)
                x <- x + o_proj(y)
                x <- x + down_proj(relu(up_proj(norm(x)))^2)      (or gelu)
    logits = cap(lm_head(norm(x)))

A sequence is one document, which begins with the token bos_token_id.  Padding goes to the left and
is named by attention_mask.  Training packed many documents into a batch, each seeing itself alone,
and may have weighed several next tokens in its loss; `labels` give the loss of the next one.
"""
import torch
from torch import nn
from torch.nn import functional as F
from transformers import DynamicCache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from .configuration_musec import MusecConfig


def norm(x, eps):
    """In float32 at least, whatever the model's dtype is."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


def rope_angles(config, positions):
    """Cosines and sines, (batch, 1, tokens, pairs): angles in float64 on the CPU, rounded once."""
    pairs = config.rope_pairs
    powers = torch.arange(pairs, dtype=torch.float64) / max(pairs - 1, 1)
    frequencies = torch.tensor(config.rope_base, dtype=torch.float64) ** -powers
    angles = positions.cpu().to(torch.float64)[:, None, :, None] * frequencies
    return angles.cos(), angles.sin()


def rope(x, cos, sin, adjacent):
    """Turns the first pairs of columns of x, (batch, heads, tokens, head_dim)."""
    wide = x.to(cos.dtype)
    first, second = (wide[..., 0::2], wide[..., 1::2]) if adjacent else wide.chunk(2, dim=-1)
    n = cos.shape[-1]
    p, r = first[..., :n], second[..., :n]
    first = torch.cat((p * cos + r * sin, first[..., n:]), dim=-1)
    second = torch.cat((r * cos - p * sin, second[..., n:]), dim=-1)
    if adjacent:
        return torch.stack((first, second), dim=-1).flatten(-2).to(x.dtype)
    return torch.cat((first, second), dim=-1).to(x.dtype)


def attend(q, k, v, visible, scale, softcap):
    """visible: (batch, 1, queries, keys), True where a query sees a key."""
    if softcap == 0.0:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=scale)
    logits = scale * (q @ k.transpose(-1, -2))
    logits = (softcap * torch.tanh(logits / softcap)).masked_fill(~visible, float("-inf"))
    wide = torch.promote_types(logits.dtype, torch.float32)
    return torch.softmax(logits, dim=-1, dtype=wide).to(v.dtype) @ v


class MusecAttention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.config, self.layer = config, layer
        inner = config.num_attention_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, inner, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, inner, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, inner, bias=False)
        self.o_proj = nn.Linear(inner, config.hidden_size, bias=False)
        if config.head_gates:
            self.gate_proj = nn.Linear(config.gate_width, config.num_attention_heads, bias=False)

    def heads(self, x):
        return x.view(*x.shape[:2], -1, self.config.head_dim).transpose(1, 2)

    def forward(self, n, cos, sin, visible, cache):
        c = self.config
        q, k, v = (self.heads(project(n)) for project in (self.q_proj, self.k_proj, self.v_proj))
        if c.qk_norm:
            q, k = norm(q, c.norm_eps), norm(k, c.norm_eps)
        q, k = rope(q, cos, sin, c.rope_adjacent), rope(k, cos, sin, c.rope_adjacent)
        if cache is not None:
            k, v = cache.update(k, v, self.layer)
        y = attend(q, k, v, visible, c.attention_scale, c.attention_softcap).transpose(1, 2)
        if c.head_gates:
            y = y * torch.sigmoid(self.gate_proj(n[..., : c.gate_width]))[..., None]
        return self.o_proj(y.flatten(-2))


class MusecMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gelu = config.activation == "gelu"
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, n):
        h = self.up_proj(n)
        return self.down_proj(F.gelu(h, approximate="tanh") if self.gelu else F.relu(h).square())


class MusecLayer(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.eps = config.norm_eps
        self.self_attn = MusecAttention(config, layer)
        self.mlp = MusecMLP(config)
        if config.x0_mix:
            self.mix = nn.Parameter(torch.tensor([[1.0, 0.0]]))  # r, a

    def forward(self, x, x0, cos, sin, visible, cache):
        if hasattr(self, "mix"):
            x = self.mix[0, 0] * x + self.mix[0, 1] * x0
        x = x + self.self_attn(norm(x, self.eps), cos, sin, visible, cache)
        return x + self.mlp(norm(x, self.eps))


class MusecPreTrainedModel(PreTrainedModel):
    config_class = MusecConfig
    base_model_prefix = "model"
    _no_split_modules = ["MusecLayer"]
    _supports_sdpa = True


class MusecModel(MusecPreTrainedModel):
    """The stream behind the last layer, normalised."""

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(MusecLayer(config, i) for i in range(config.num_hidden_layers))
        self.post_init()

    def get_input_embeddings(self):
        return self.embed_tokens

    def set_input_embeddings(self, value):
        self.embed_tokens = value

    def visible(self, queries, past, attention_mask, window):
        """Query i sees the keys j with i - window <= j <= i that are no padding, and itself."""
        i = torch.arange(past, past + queries, device=self.device)[:, None]
        j = torch.arange(past + queries, device=self.device)[None, :]
        seen = ((j <= i) & (j >= i - window))[None, None]
        if attention_mask is not None:
            seen = (seen & attention_mask[:, None, None, :].bool()) | (i == j)[None, None]
        return seen

    def forward(self, input_ids, attention_mask=None, past_key_values=None):
        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        queries = input_ids.shape[1]
        if attention_mask is None:
            positions = torch.arange(past, past + queries)[None, :]
        else:
            positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)[:, past:]
        x = x0 = norm(self.embed_tokens(input_ids), self.config.norm_eps)
        wide = torch.promote_types(x.dtype, torch.float32)
        cos, sin = (a.to(x.device, wide) for a in rope_angles(self.config, positions))
        masks = {
            window: self.visible(queries, past, attention_mask, window)
            for window in set(self.config.attention_windows)
        }
        for layer, window in zip(self.layers, self.config.attention_windows):
            x = layer(x, x0, cos, sin, masks[window], past_key_values)
        return norm(x, self.config.norm_eps)


class MusecForCausalLM(MusecPreTrainedModel, GenerationMixin):
    """With tie_word_embeddings there is no lm_head: the embedding is it."""

    def __init__(self, config):
        super().__init__(config)
        self.model = MusecModel(config)
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def set_input_embeddings(self, value):
        self.model.embed_tokens = value

    def get_output_embeddings(self):
        return getattr(self, "lm_head", None)

    def set_output_embeddings(self, value):
        self.lm_head = value

    def head(self, x):
        c = self.config
        raw = F.linear(x, self.model.embed_tokens.weight) if c.tie_word_embeddings else self.lm_head(x)
        raw = raw.to(torch.promote_types(raw.dtype, torch.float32))
        if c.logit_cap == "tanh":
            return c.logit_cap_scale * torch.tanh(raw / c.logit_cap_scale)
        if c.logit_cap == "sigmoid":
            return c.logit_cap_scale * torch.sigmoid((raw + c.logit_cap_shift) / c.logit_cap_width)
        return raw

    def forward(
        self,
        input_ids,
        attention_mask=None,
        past_key_values=None,
        labels=None,
        use_cache=None,
        logits_to_keep=0,
        **kwargs,
    ):
        use_cache = self.config.use_cache if use_cache is None else use_cache
        if use_cache and past_key_values is None and not self.training:
            past_key_values = DynamicCache()
        x = self.model(input_ids, attention_mask, past_key_values)
        logits = self.head(x[:, -logits_to_keep:])  # 0: all
        loss = None
        if labels is not None:
            if logits_to_keep != 0:
                raise ValueError("labels need the logits of all tokens: logits_to_keep must be 0")
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)

    def prepare_inputs_for_generation(
        self, input_ids, past_key_values=None, attention_mask=None, use_cache=None, **kwargs
    ):
        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        return {
            "input_ids": input_ids[:, past:],
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
            "use_cache": use_cache,
            "logits_to_keep": 1,
        }
