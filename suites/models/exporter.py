"""Programs as people ship them: what ``ExecutorchExporter`` of transformers makes of its models.

The exporter exports, lowers and emits by itself, with patches of torch, exir and the backends; the
cells here execute that program and hold it against the model it was made of. Models for generation
come in the two parts that ``export_for_generation`` ships: a prefill, and a decode whose cache goes
in and out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from executorch.exir import ExecutorchProgramManager
from torch.export import ExportedProgram

from harness import Case, Exporter, Given, Inputs, arguments

Parts = tuple[torch.nn.Module, dict[str, Any]]
"""A model and its inputs by name."""

VOCABULARY = 256
_TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 128,
}
_DECODER = _TEXT | {"num_key_value_heads": 1, "head_dim": 64, "pad_token_id": None}
_VISION: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}


def make(
    module: torch.nn.Module, inputs: Given, backend: str
) -> tuple[ExportedProgram, ExecutorchProgramManager]:
    """What ``ExecutorchExporter`` makes of a model."""
    from transformers.exporters.configs import ExecutorchConfig
    from transformers.exporters.exporter_dynamo import DynamoExporter
    from transformers.exporters.exporter_executorch import ExecutorchExporter

    exported: list[ExportedProgram] = []

    class Between(DynamoExporter):
        """Stands between the exporter and its base, which makes the ATen program."""

        def export_program(self, *args: Any, **kwargs: Any) -> Any:
            program, metadata = super().export_program(*args, **kwargs)
            exported.append(program)
            return program, metadata

    class Keeping(ExecutorchExporter, Between):
        """The exporter, which keeps the ATen program."""

    config = ExecutorchConfig(backend=backend)
    shipped = Keeping().export(module, arguments(inputs)[1], config)
    return exported[-1], shipped.program


EXPORTER = Exporter(
    "ExecutorchExporter of transformers",
    make,
    "xnnpack:fp32|mlx:fp32|mlx:bf16|mlx:fp16",
)


def build(parts: Callable[[], Parts]) -> tuple[torch.nn.Module, Inputs, dict[str, Any]]:
    """A model and its inputs as a case takes them."""
    from transformers.exporters.exporter_dynamo import register_cache_pytrees_for_model

    model, inputs = parts()
    # The exporter does, for good; before, the model returns its cache as one opaque leaf.
    register_cache_pytrees_for_model(model)
    return model, (), inputs


def _tokens(length: int = 12) -> dict[str, Any]:
    return {"input_ids": torch.randint(0, VOCABULARY, (1, length))}


def _llama() -> Parts:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**_DECODER)), _tokens()


def _qwen3() -> Parts:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**_DECODER)), _tokens()


def _gemma3() -> Parts:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    config = Gemma3TextConfig(
        **_DECODER, sliding_window=8, layer_types=["sliding_attention", "full_attention"]
    )
    return Gemma3ForCausalLM(config), _tokens()


def _smollm3() -> Parts:
    from transformers import SmolLM3Config, SmolLM3ForCausalLM

    config = SmolLM3Config(**_DECODER, no_rope_layers=[1, 0])
    return SmolLM3ForCausalLM(config), _tokens()


def _lfm2() -> Parts:
    from transformers import Lfm2Config, Lfm2ForCausalLM

    given = {key: value for key, value in _DECODER.items() if key != "head_dim"}
    config = Lfm2Config(**given, layer_types=["conv", "full_attention"])
    return Lfm2ForCausalLM(config), _tokens()


def _qwen3_moe() -> Parts:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    config = Qwen3MoeConfig(
        **_DECODER, moe_intermediate_size=64, num_experts=4, num_experts_per_tok=2
    )
    return Qwen3MoeForCausalLM(config), _tokens()


def _mamba() -> Parts:
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(
        vocab_size=VOCABULARY, hidden_size=64, state_size=8, num_hidden_layers=2, use_mambapy=False
    )
    return MambaForCausalLM(config), _tokens(6)


def _bert() -> Parts:
    from transformers import BertConfig, BertForSequenceClassification

    inputs = _tokens() | {
        "attention_mask": torch.tensor([[1] * 9 + [0] * 3]),
        "token_type_ids": torch.tensor([[0] * 6 + [1] * 6]),
    }
    return BertForSequenceClassification(BertConfig(**_TEXT, num_labels=8)), inputs


def _image(size: int = 32) -> dict[str, Any]:
    return {"pixel_values": torch.randn(1, 3, size, size)}


def _vit() -> Parts:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(ViTConfig(**_VISION, num_labels=8)), _image()


def _dinov2() -> Parts:
    from transformers import Dinov2Config, Dinov2Model

    return Dinov2Model(Dinov2Config(**_VISION)), _image()


def _siglip() -> Parts:
    from transformers import SiglipVisionConfig, SiglipVisionModel

    return SiglipVisionModel(SiglipVisionConfig(**_VISION)), _image()


def _resnet() -> Parts:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1], layer_type="basic", num_labels=8
    )
    return ResNetForImageClassification(config), _image()


def _mobilenet() -> Parts:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(depth_multiplier=0.25, image_size=32, num_labels=8)
    return MobileNetV2ForImageClassification(config), _image()


def _whisper() -> Parts:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=128,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        max_source_positions=32,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    inputs = {
        "input_features": torch.randn(1, 80, 64),
        "decoder_input_ids": torch.randint(0, VOCABULARY, (1, 5)),
    }
    return WhisperForConditionalGeneration(config), inputs


def _t5() -> Parts:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCABULARY, d_model=128, d_kv=64, d_ff=256, num_layers=2, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    inputs = _tokens() | {"decoder_input_ids": torch.randint(0, VOCABULARY, (1, 5))}
    return T5ForConditionalGeneration(config), inputs


def _wav2vec2() -> Parts:
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        vocab_size=32,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        conv_dim=(32, 32, 32),
        conv_stride=(5, 2, 2),
        conv_kernel=(10, 3, 3),
        num_feat_extract_layers=3,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    return Wav2Vec2ForCTC(config), {"input_values": torch.randn(1, 800)}


def _stage(of: Callable[[], Parts], name: str) -> Parts:
    """One of the parts in which a model for generation is shipped, as ``export_for_generation``
    takes it apart: it lets the model generate, and keeps the inputs of its first two calls."""
    from transformers.exporters.utils import decompose_for_generation

    model, inputs = of()
    part, given = decompose_for_generation(model.eval(), inputs)[name]
    # The exporter moves flags into the configuration, where they stand already.
    flags = {key for key, value in given.items() if value is None or isinstance(value, bool)}
    return part, {key: value for key, value in given.items() if key not in flags}


MODELS: list[tuple[str, Callable[[], Parts]]] = [
    ("llama", _llama),
    ("llama_prefill", partial(_stage, _llama, "prefill")),
    ("llama_decode", partial(_stage, _llama, "decode")),
    ("qwen3", _qwen3),
    ("qwen3_decode", partial(_stage, _qwen3, "decode")),
    ("gemma3", _gemma3),
    ("smollm3", _smollm3),
    ("lfm2", _lfm2),
    ("lfm2_decode", partial(_stage, _lfm2, "decode")),
    ("qwen3_moe", _qwen3_moe),
    ("mamba", _mamba),
    ("bert", _bert),
    ("vit", _vit),
    ("dinov2", _dinov2),
    ("siglip", _siglip),
    ("resnet", _resnet),
    ("mobilenet_v2", _mobilenet),
    ("whisper", _whisper),
    ("t5", _t5),
    ("wav2vec2", _wav2vec2),
]
"""Names and what makes them."""

_PLAIN = frozenset({"llama", "llama_decode", "vit"})

CASES: list[Case] = [
    Case(
        f"exporter/{name}",
        partial(build, parts),
        op=name.partition("_")[0],
        tags=frozenset({"model", "fp32"} | (set() if name in _PLAIN else {"nightly"})),
        targets="xnnpack:fp32|mlx:fp32",
        exporter=EXPORTER,
    )
    for name, parts in MODELS
]
