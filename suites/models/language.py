"""Decoder-only language models over a whole sequence, without a cache (see generation.py).

Positions and masks are inputs, as a runner gives them. A mask that transformers makes itself counts
packed sequences with a cumulative sum.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import Dim

from harness import Case, Inputs
from suites.models.build import DYNAMIC, EVERY, VOCABULARY, Field, Make, model
from suites.models.inputs import BEGIN, END, PAD, causal_mask, tokens
from suites.models.weights import init_weights

WINDOW = 8  # positions that a sliding layer sees

SPECIAL = {"pad_token_id": PAD, "bos_token_id": BEGIN, "eos_token_id": END}
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "max_position_embeddings": 128,
}


class Causal(torch.nn.Module):
    """Maps tokens and positions (1, L) and a mask (1, 1, L, L) to logits (1, L, vocabulary)."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        return self.logits(tokens, positions, mask)

    def logits(self, tokens: torch.Tensor, positions: torch.Tensor, masks: Any) -> torch.Tensor:
        """The model's logits, with one mask or a mask by kind of layer."""
        logits: torch.Tensor = self.model(
            input_ids=tokens, position_ids=positions, attention_mask=masks, use_cache=False
        ).logits
        return logits


class Sliding(Causal):
    """Like :class:`Causal`, with a second mask for layers with a sliding window."""

    def forward(  # type: ignore[override]
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor,
        window: torch.Tensor,
    ) -> torch.Tensor:
        masks = {"full_attention": mask, "sliding_attention": window}
        return self.logits(tokens, positions, masks)


def llama(**sizes: Any) -> torch.nn.Module:
    """Llama: rotary positions, grouped-query attention, gated MLP."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return init_weights(LlamaForCausalLM(LlamaConfig(**{**SIZES, **SPECIAL, **sizes})))


def qwen3(**sizes: Any) -> torch.nn.Module:
    """Qwen3: queries and keys are normalized head by head."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return init_weights(Qwen3ForCausalLM(Qwen3Config(**{**SIZES, **SPECIAL, **sizes})))


def gemma3(**sizes: Any) -> torch.nn.Module:
    """Gemma 3: layers with a sliding window, norms around each part, a scaled tied embedding."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    own = {
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention"],
        "query_pre_attn_scalar": 64,
    }
    return init_weights(Gemma3ForCausalLM(Gemma3TextConfig(**{**SIZES, **SPECIAL, **own, **sizes})))


def smollm3(**sizes: Any) -> torch.nn.Module:
    """SmolLM3: every other layer has no positions."""
    from transformers import SmolLM3Config, SmolLM3ForCausalLM

    own = {"no_rope_layers": [1, 0]}
    return init_weights(SmolLM3ForCausalLM(SmolLM3Config(**{**SIZES, **SPECIAL, **own, **sizes})))


def lfm2(**sizes: Any) -> torch.nn.Module:
    """LFM2: gated short convolutions, with attention between them."""
    from transformers import Lfm2Config, Lfm2ForCausalLM

    plain = {name: size for name, size in SIZES.items() if name != "head_dim"}
    own = {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}
    return init_weights(Lfm2ForCausalLM(Lfm2Config(**{**plain, **SPECIAL, **own, **sizes})))


def qwen3_moe(**sizes: Any) -> torch.nn.Module:
    """Qwen3-MoE: each token goes to two of four experts."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    own = {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        # As in transformers' exporters: no backend lowers the kernels of the other implementations.
        "experts_implementation": "batched_mm",
    }
    return init_weights(Qwen3MoeForCausalLM(Qwen3MoeConfig(**{**SIZES, **SPECIAL, **own, **sizes})))


def mamba(**sizes: Any) -> torch.nn.Module:
    """Mamba: selective state spaces, a recurrence over the sequence in place of attention."""
    from transformers import MambaConfig, MambaForCausalLM

    own = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2}
    return init_weights(MambaForCausalLM(MambaConfig(**{**own, **SPECIAL, **sizes})))


def sentence(length: int, window: int = 0) -> Make:
    """Make inputs of :class:`Causal`, or, with a window, of :class:`Sliding`."""

    def make() -> Inputs:
        given = (tokens(length, VOCABULARY), torch.arange(length)[None], causal_mask(length))
        return (*given, causal_mask(length, window)) if window else given

    return make


def ids(length: int) -> Make:
    """Make token ids."""
    return lambda: (tokens(length, VOCABULARY),)


_LENGTH = Dim("length", min=2, max=32)
_LENGTHS = ({1: _LENGTH}, {1: _LENGTH}, {2: _LENGTH, 3: _LENGTH})
_SPAN = (2, 32)  # the bounds of the range, after a length between them

CASES: list[Case] = [
    model(
        "llama/tiny",
        lambda: Causal(llama()),
        sentence(12),
        sentence(12),
        targets=f"{EVERY}|xnnpack:int4",
        plain_targets="mlx:int4",
    ),
    model("qwen3/tiny", lambda: Causal(qwen3()), sentence(12), sentence(12)),
    model(
        "gemma3/tiny",
        lambda: Sliding(gemma3()),
        sentence(12, WINDOW),
        sentence(12, WINDOW),
    ),
    model("smollm3/tiny", lambda: Causal(smollm3()), sentence(12), sentence(12)),
    model("lfm2/tiny", lambda: Causal(lfm2()), sentence(12), sentence(12)),
    model("qwen3_moe/tiny", lambda: Causal(qwen3_moe(num_hidden_layers=1)), sentence(12),
          sentence(12), targets=EVERY),
    model("mamba/tiny", lambda: Field(mamba(), "logits", use_cache=False), ids(8), ids(8),
          targets=EVERY),
    *(
        model(
            f"{name}/dynamic",
            lambda make=make: Causal(make()),
            sentence(12),
            *map(sentence, _SPAN),
            dynamic=_LENGTHS,
            targets=DYNAMIC,
        )
        for name, make in {
            "llama": llama, "qwen3": qwen3, "smollm3": smollm3, "lfm2": lfm2, "qwen3_moe": qwen3_moe
        }.items()
    ),
    model(
        "gemma3/dynamic",
        lambda: Sliding(gemma3()),
        sentence(12, WINDOW),
        *(sentence(length, WINDOW) for length in _SPAN),
        dynamic=(*_LENGTHS, {2: _LENGTH, 3: _LENGTH}),
        targets="portable:fp32|mlx:fp32|metal:fp32",  # XNNPACK's gelu is wrong at any length
    ),
]  # fmt: skip
