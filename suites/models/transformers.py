"""Models from transformers configs: the real architectures, small, with random weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from harness import Case, Inputs
from suites.build import COARSE, explain

VOCABULARY = 256


class Output(torch.nn.Module):
    """A transformers model that returns one plain tensor of its output record."""

    def __init__(self, model: torch.nn.Module, field: str, **fixed: Any) -> None:
        super().__init__()
        self.model = model
        self.field = field
        self.fixed = fixed

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(self.model(tensor, **self.fixed), self.field)
        return result


def llama() -> tuple[torch.nn.Module, Inputs]:
    """Llama with grouped-query attention: 4 heads share 2 key-value heads."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=172,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        use_cache=False,
        attn_implementation="sdpa",
    )
    model = Output(LlamaForCausalLM(config), "logits", use_cache=False)
    return model, (torch.randint(0, VOCABULARY, (1, 12)),)


def deit_tiny(layers: int) -> tuple[torch.nn.Module, Inputs]:
    """DeiT-Tiny (192 wide, 3 heads; 12 layers as published), on 64 × 64 images."""
    from transformers import DeiTConfig, DeiTForImageClassification

    config = DeiTConfig(
        hidden_size=192,
        intermediate_size=768,
        num_hidden_layers=layers,
        num_attention_heads=3,
        image_size=64,
        num_labels=16,
        attn_implementation="sdpa",
    )
    return Output(DeiTForImageClassification(config), "logits"), (torch.randn(1, 3, 64, 64),)


def whisper_encoder() -> tuple[torch.nn.Module, Inputs]:
    """The encoder of Whisper: two convolutions and a transformer over 32 positions."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=64,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=256,
        num_mel_bins=80,
        max_source_positions=32,
        attn_implementation="sdpa",
    )
    return Output(WhisperEncoder(config), "last_hidden_state"), (torch.randn(1, 80, 64),)


def siglip_vision() -> tuple[torch.nn.Module, Inputs]:
    """SigLIP's vision tower: tanh-gelu, and a head that attends to all patches."""
    from transformers import SiglipVisionConfig, SiglipVisionModel

    config = SiglipVisionConfig(
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=1,
        image_size=32,
        patch_size=8,
        attn_implementation="sdpa",
    )
    return Output(SiglipVisionModel(config), "last_hidden_state"), (torch.randn(1, 3, 32, 32),)


_TAGS = frozenset({"model", "fp32"})
_FLOAT = "*:fp32|tosa:fp"  # its integers cost half a minute, and are DeiT's

CASES: list[Case] = [
    Case("llama/tiny", llama, tags=_TAGS),
    # Four layers: twelve take the Arm backend five minutes to lower to integers.
    Case("deit/tiny_4_layers", partial(deit_tiny, 4), tags=_TAGS),
    Case("deit/tiny", partial(deit_tiny, 12), tags=_TAGS | {"nightly"}),
    Case("whisper/encoder", whisper_encoder, tags=_TAGS),
    Case("siglip/vision", siglip_vision, tags=_TAGS, targets=_FLOAT),
]

CASES = explain(
    CASES,
    {
        "deit/tiny": COARSE,
        "deit/tiny_4_layers": COARSE,
    },
)
