"""configuration_musec.py - the sizes and options of a GPT that musec trained, for transformers.

Written into an export by `musec export RUN --to hf`; what the options mean is in modeling_musec.py.
"""
from transformers import PretrainedConfig


class MusecConfig(PretrainedConfig):
    model_type = "musec"

    def __init__(
        self,
        vocab_size=320,  # padded; the ids beyond the tokenizer's mean nothing
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=2,
        head_dim=64,  # num_attention_heads * head_dim need not be hidden_size
        max_position_embeddings=128,  # tokens of the longest documents in training
        attention_windows=(127, 127),  # of each layer: tokens before its own that a query sees
        attention_scale=0.125,  # on q.k
        attention_softcap=0.0,  # c > 0: attention logits become c tanh(y / c)
        qk_norm=True,  # queries and keys are normalised per head
        rope_base=1024.0,  # pair j of n turns by rope_base^(-j / (n - 1)) a token
        rope_pairs=16,  # the first n of the head_dim / 2 pairs turn
        rope_adjacent=False,  # pairs are columns (2j, 2j+1), else (j, j + head_dim/2)
        head_gates=False,  # each head's output is gated by gate_width columns of the input
        gate_width=12,
        x0_mix=False,  # each layer mixes the normalised embedding in again
        activation="relu2",  # of the MLP: "relu2" or "gelu" (tanh form)
        logit_cap="sigmoid",  # "none", "tanh" or "sigmoid"
        logit_cap_scale=23.0,
        logit_cap_shift=5.0,
        logit_cap_width=7.5,
        norm_eps=1.1920929e-07,
        use_cache=True,
        bos_token_id=256,  # starts a document, and so ends the one before
        eos_token_id=256,
        pad_token_id=256,
        tie_word_embeddings=False,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.head_dim = head_dim
        self.max_position_embeddings = max_position_embeddings
        self.attention_windows = list(attention_windows)
        self.attention_scale = attention_scale
        self.attention_softcap = attention_softcap
        self.qk_norm = qk_norm
        self.rope_base = rope_base
        self.rope_pairs = rope_pairs
        self.rope_adjacent = rope_adjacent
        self.head_gates = head_gates
        self.gate_width = gate_width
        self.x0_mix = x0_mix
        self.activation = activation
        self.logit_cap = logit_cap
        self.logit_cap_scale = logit_cap_scale
        self.logit_cap_shift = logit_cap_shift
        self.logit_cap_width = logit_cap_width
        self.norm_eps = norm_eps
        self.use_cache = use_cache
        super().__init__(
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
            pad_token_id=pad_token_id,
            tie_word_embeddings=tie_word_embeddings,
            **kwargs,
        )
