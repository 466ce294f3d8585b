"""Programs that ``ExecutorchExporter`` of transformers makes of its models.

The exporter exports, lowers and emits a program itself, with its own patches of torch, exir and the
backends. The cells execute that program and compare it with the model, including the caches that
are inputs and outputs. Generating models also have cases for the two parts that
``export_for_generation`` makes, prefill and decode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from executorch.exir import ExecutorchProgramManager
from torch.export import ExportedProgram

from harness import CallInputs, Case, Exporter, Inputs, arguments
from suites.models import language, speech, text, vision
from suites.models.build import VOCABULARY
from suites.models.inputs import mel, padded_tokens, picture, tokens, waveform
from suites.models.weights import init_weights

Parts = tuple[torch.nn.Module, dict[str, Any]]
"""A model and its inputs by name."""


def make(
    module: torch.nn.Module, inputs: CallInputs, backend: str
) -> tuple[ExportedProgram, ExecutorchProgramManager]:
    """Export a model with ``ExecutorchExporter``; returns the ATen and the ExecuTorch program."""
    from transformers.exporters.configs import ExecutorchConfig
    from transformers.exporters.exporter_dynamo import DynamoExporter
    from transformers.exporters.exporter_executorch import ExecutorchExporter

    exported: list[ExportedProgram] = []

    class Between(DynamoExporter):
        """A base of the exporter that records the ATen program."""

        def export_program(self, *args: Any, **kwargs: Any) -> Any:
            program, metadata = super().export_program(*args, **kwargs)
            exported.append(program)
            return program, metadata

    class Keeping(ExecutorchExporter, Between):
        """The exporter, with the recording base."""

    config = ExecutorchConfig(backend=backend)
    shipped = Keeping().export(module, arguments(inputs)[1], config)
    return exported[-1], shipped.program


EXPORTER = Exporter(
    "ExecutorchExporter of transformers",
    make,
    "xnnpack:fp32|mlx:fp32|mlx:bf16|mlx:fp16",
)


def _ids() -> dict[str, Any]:
    return {"input_ids": tokens(12, VOCABULARY)}


def _decoder(model: Callable[[], torch.nn.Module]) -> Parts:
    return model(), _ids()


def _gemma3() -> Parts:
    model = language.gemma3()
    model.config.use_cache = False  # its prefill returns one
    return model, _ids()


def _stage(model: Callable[[], torch.nn.Module], name: str) -> Parts:
    """A part of a generating model, as ``export_for_generation`` splits it.

    The exporter runs the model's generation and takes the inputs of the first two calls.
    """
    from transformers.exporters.utils import decompose_for_generation

    part, given = decompose_for_generation(model(), _ids())[name]
    # The exporter moves flags into the configuration, which already has them.
    flags = {key for key, value in given.items() if value is None or isinstance(value, bool)}
    return part, {key: value for key, value in given.items() if key not in flags}


def _bert() -> Parts:
    ids, mask = padded_tokens(16, VOCABULARY, (16, 9))
    return text.bert().model, {"input_ids": ids, "attention_mask": mask}


def _t5() -> Parts:
    ids, mask = padded_tokens(16, VOCABULARY, (16, 9))
    target = tokens(8, VOCABULARY, 2)
    inputs = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": target}
    return text.t5().model, inputs


def _image(model: Callable[[], torch.nn.Module], side: int) -> Parts:
    return model().model, {"pixel_values": picture(side)}


def _whisper() -> Parts:
    from transformers import WhisperForConditionalGeneration

    model = init_weights(WhisperForConditionalGeneration(speech.whisper_config()))
    return model, {"input_features": mel(64, 80), "decoder_input_ids": tokens(8, VOCABULARY)}


def _wav2vec2() -> Parts:
    return speech.wav2vec2().model, {"input_values": waveform(4000)[None]}


_DECODERS: Mapping[str, Callable[[], torch.nn.Module]] = {
    "llama": language.llama,
    "qwen3": language.qwen3,
    "gemma3": language.gemma3,
    "smollm3": language.smollm3,
    "lfm2": language.lfm2,
    "qwen3_moe": language.qwen3_moe,
    "mamba": language.mamba,
}
_STAGES = ("prefill", "decode")

MODELS: Mapping[str, Callable[[], Parts]] = {
    **{name: partial(_decoder, model) for name, model in _DECODERS.items()},
    "gemma3": _gemma3,
    **{
        f"{name}_{stage}": partial(_stage, model, stage)
        for name, model in _DECODERS.items()
        for stage in _STAGES
    },
    "bert": _bert,
    "t5": _t5,
    "deit": partial(_image, vision.deit, vision.SIDE),
    "vit": partial(_image, vision.vit, vision.SIDE),
    "dinov2": partial(_image, vision.dinov2, 56),
    "siglip": partial(_image, vision.siglip, vision.SIDE),
    "resnet": partial(_image, vision.resnet, vision.SIDE),
    "mobilenet_v2": partial(_image, vision.mobilenet_v2, vision.SIDE),
    "whisper": _whisper,
    "wav2vec2": _wav2vec2,
}
"""Functions that make a model and its inputs, by name."""


def build(parts: Callable[[], Parts]) -> tuple[torch.nn.Module, Inputs, dict[str, Any]]:
    """Make a model and its inputs for a case."""
    model, inputs = parts()
    _register_caches(model)
    if model._can_set_experts_implementation():  # type: ignore[operator]  # a PreTrainedModel
        model.set_experts_implementation("eager")  # type: ignore[operator]  # the grouped kernel has no float64
    return model, (), inputs


def _register_caches(model: torch.nn.Module) -> None:
    """Register the caches that may be inputs and outputs as pytrees.

    The exporter registers all loaded cache classes. Static caches are excluded: they stay in their
    modules, which torch.export would leave with fake tensors.
    """
    from transformers.cache_utils import StaticCache
    from transformers.exporters.exporter_dynamo import register_cache_pytrees_for_model

    from harness.vendors.torch import _pytree

    known = set(_pytree.SUPPORTED_NODES)
    register_cache_pytrees_for_model(model)
    for kind in set(_pytree.SUPPORTED_NODES) - known:
        if issubclass(kind, StaticCache):
            _pytree._deregister_pytree_node(kind)


_PLAIN_TARGETS = {"llama_decode": "*"}
# The slower of the two convolutional networks, by a factor of three.
_NIGHTLY_TAGS = {"mobilenet_v2": frozenset({"fp32", "night_model", "nightly"})}

CASES: list[Case] = [
    Case(
        f"exporter/{name}",
        partial(build, parts),
        tags=_NIGHTLY_TAGS.get(name, frozenset({"fp32", "model"})),
        targets="xnnpack:fp32|mlx:fp32",
        plain_targets=_PLAIN_TARGETS.get(name, ""),
        exporter=EXPORTER,
    )
    for name, parts in MODELS.items()
]
