"""Nightly cases of the architectures in their published shapes, with random weights.

Large models are cut to one layer of each kind. Vocabularies are small, because an embedding of
150,000 rows tests nothing that one of 256 rows does not. Sizes come from the named configs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from harness import Case, Inputs
from suites.models import language, speech, text, vision
from suites.models.build import VOCABULARY, Field, Make, model
from suites.models.inputs import causal_mask, tokens
from suites.models.language import Causal, Sliding, ids, sentence
from suites.models.speech import frames_first, sound, spectrogram
from suites.models.text import sentences, translation
from suites.models.vision import pictures

_FAST = "xnnpack:fp32|mlx:fp32|metal:fp32"  # TOSA's reference model takes a minute a layer
_ALL = f"{_FAST}|tosa:fp"


def real(
    name: str,
    module: Callable[[], torch.nn.Module],
    *calls: Make,
    targets: str = _FAST,
    memory: float = 0.0,
) -> Case:
    """Make a case of the real scale, ``architecture/config``."""
    case = model(name, module, *calls, targets=targets, memory=memory)
    return replace(case, tags=(case.tags - {"model"}) | {"published", "nightly"})


def decoder(
    make: Callable[..., torch.nn.Module], around: type[Causal] = Causal, **sizes: Any
) -> Callable[[], torch.nn.Module]:
    """Return a function that makes a language model of one layer."""
    return lambda: around(make(**{"num_hidden_layers": 1, "max_position_embeddings": 512, **sizes}))


def _whisper_decoded() -> Inputs:
    text = tokens(16, VOCABULARY), torch.arange(16)[None], causal_mask(16)
    return (*text, torch.randn(1, 1500, 384))


_WHISPER = {
    "d_model": 384,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 1536,
    "decoder_ffn_dim": 1536,
    "max_source_positions": 1500,
}
_SMALL = {
    "hidden_size": 384,
    "num_attention_heads": 6,
    "num_hidden_layers": 12,
    "intermediate_size": 1536,
    "image_size": 224,
}
_RESNET_50 = {
    "embedding_size": 64,
    "hidden_sizes": [256, 512, 1024, 2048],
    "depths": [3, 4, 6, 3],
    "layer_type": "bottleneck",
}
_EFFICIENTNET_B0 = {
    "image_size": 224,
    "width_coefficient": 1.0,
    "depth_coefficient": 1.0,
    "hidden_dim": 1280,
}

CASES: list[Case] = [
    real(
        "llama/3.2_1b_layer",
        decoder(language.llama, hidden_size=2048, intermediate_size=8192, num_attention_heads=32,
                num_key_value_heads=8),
        sentence(64),
        targets=_ALL,
        memory=4,
    ),
    real(
        "qwen3/0.6b_layer",
        decoder(language.qwen3, hidden_size=1024, intermediate_size=3072, num_attention_heads=16,
                num_key_value_heads=8, head_dim=128),
        sentence(64),
    ),
    real(
        "gemma3/1b_layers",
        decoder(language.gemma3, Sliding, num_hidden_layers=2, hidden_size=1152,
                intermediate_size=6912, num_attention_heads=4, num_key_value_heads=1, head_dim=256,
                query_pre_attn_scalar=256, sliding_window=32),
        sentence(64, 32),
        memory=4,
    ),
    real(
        "smollm3/3b_layer",
        decoder(language.smollm3, hidden_size=2048, intermediate_size=11008,
                num_attention_heads=16, num_key_value_heads=4, head_dim=128, no_rope_layers=[1]),
        sentence(64),
        memory=4,
    ),
    real(
        "lfm2/350m_layers",
        decoder(language.lfm2, num_hidden_layers=2, hidden_size=1024, intermediate_size=4608,
                num_attention_heads=16, num_key_value_heads=8),
        sentence(64),
    ),
    real(
        "qwen3_moe/30b_a3b_layer",  # 16 of its 128 experts
        decoder(language.qwen3_moe, hidden_size=2048, num_attention_heads=32,
                num_key_value_heads=4, head_dim=128, num_experts=16, num_experts_per_tok=8,
                moe_intermediate_size=768),
        sentence(4),
        memory=8,
    ),
    real(
        "mamba/130m_layer",
        lambda: Field(language.mamba(hidden_size=768, num_hidden_layers=1), "logits",
                      use_cache=False),
        ids(16),
    ),
    real("whisper/tiny_encoder", partial(speech.whisper_encoder, **_WHISPER), spectrogram(3000),
         memory=6),
    real("whisper/tiny_decoder", partial(speech.whisper_decoder, **_WHISPER), _whisper_decoded),
    real(
        "parakeet/0.6b_layer",
        partial(speech.parakeet_ctc, hidden_size=1024, intermediate_size=4096,
                num_hidden_layers=1, num_attention_heads=8, subsampling_conv_channels=256),
        frames_first(400),
        memory=4,
    ),
    real(
        "wav2vec2/base",
        partial(speech.wav2vec2, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                intermediate_size=3072, conv_dim=(512,) * 7, num_conv_pos_embeddings=128,
                num_conv_pos_embedding_groups=16),
        sound(16_000),
        memory=8,
    ),
    real("deit/tiny_224", partial(vision.deit, **{**_SMALL, "hidden_size": 192,
         "num_attention_heads": 3, "intermediate_size": 768}), pictures(224), targets=_ALL),
    real("vit/small_224", partial(vision.vit, **_SMALL), pictures(224)),
    real(
        "dinov2/small_224",
        partial(vision.dinov2, hidden_size=384, num_attention_heads=6, num_hidden_layers=12,
                mlp_ratio=4, image_size=224),
        pictures(224),
    ),
    real(
        "siglip/base_224",
        partial(vision.siglip, hidden_size=768, num_attention_heads=12, num_hidden_layers=12,
                intermediate_size=3072, image_size=224),
        pictures(224),
        memory=8,
    ),
    real("mobilenet_v2/1.0_224", partial(vision.mobilenet_v2, depth_multiplier=1.0,
         image_size=224), pictures(224), targets=_ALL),
    real("resnet/50", partial(vision.resnet, **_RESNET_50), pictures(224), memory=4),
    real("efficientnet/b0", partial(vision.efficientnet, **_EFFICIENTNET_B0), pictures(224)),
    real(
        "bert/base",
        partial(text.bert, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                intermediate_size=3072),
        sentences(64, 40),
        memory=8,
    ),
    real(
        # 4 of the 24 layers: none normalizes, and with random weights float32 reaches only 14 dB
        # over all of them.
        "mobilebert/uncased_layers",
        partial(text.mobilebert, hidden_size=512, num_hidden_layers=4, num_attention_heads=4,
                intermediate_size=512),
        sentences(32, 20),
    ),
    real(
        "t5/small",
        partial(text.t5, d_model=512, d_ff=2048, num_layers=6, num_heads=8),
        translation(32, 20),
        memory=4,
    ),
]  # fmt: skip
