"""Language models as ``export_llm`` transforms them: prefill, then decoding token by token.

The models are ExecuTorch's own transformer with the arguments of Llama 3, Qwen 3, Gemma 3 and
Qwen 3.5, made small; its source transformations put in caches and attention of
``executorch.extension.llm``, and quantized embeddings. Weights are quantized by the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from harness import Case
from suites.llm.only import TARGETS, load_operators

VOCABULARY, CONTEXT = 96, 32

_LLAMA: Mapping[str, Any] = {"rope_theta": 500000.0, "use_scaled_rope": True}
_QWEN3: Mapping[str, Any] = {
    "use_qk_norm": True,
    "qk_norm_before_rope": True,
    "use_hf_rope": True,
    "rope_theta": 1000000.0,
    "head_dim": 32,
}
_GEMMA3: Mapping[str, Any] = {
    "use_qk_norm": True,
    "qk_norm_before_rope": True,
    "use_hf_rope": True,
    "post_attention_norm": True,
    "post_ffn_norm": True,
    "rms_norm_add_unit_offset": True,
    "embedding_scale_factor": 8.0,
    "attention_qkv_bias": False,
}
_QWEN35: Mapping[str, Any] = {
    "layer_types": ["linear_attention", "full_attention"],
    "use_hf_rope": True,
    "use_q_gate": True,
    "rms_norm_add_unit_offset": True,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}


def _make(
    arguments: Mapping[str, Any], *, quantized_cache: bool = False, embedding: str = ""
) -> nn.Module:
    """Make a transformer with two layers.

    Args:
        arguments: of upstream's ``ModelArgs``, beside sizes.
        quantized_cache: keep keys and values in int8, and attend to the codes.
        embedding: bits and group size of the embedding, such as ``4,32``; empty for floats.
    """
    from executorch.examples.models.llama.llama_transformer import construct_transformer
    from executorch.examples.models.llama.model_args import ModelArgs
    from executorch.examples.models.llama.source_transformation import (
        custom_kv_cache,
        quantize,
        sdpa,
    )

    given = ModelArgs(
        dim=64,
        n_layers=2,
        n_heads=4,
        n_kv_heads=2,
        vocab_size=VOCABULARY,
        hidden_dim=128,
        max_seq_len=CONTEXT,
        max_context_len=CONTEXT,
        use_kv_cache=True,
        use_sdpa_with_kv_cache_op=True,
        enable_dynamic_shape=True,
        **arguments,
    )
    model = construct_transformer(given).eval()
    if embedding:
        model = quantize.get_quant_embedding_transform(embedding, quantize_with_hqq=False)(model)
    model = custom_kv_cache.replace_kv_cache_with_custom_kv_cache(model)
    model = sdpa.replace_sdpa_with_custom_op(model)
    if quantized_cache:
        model = custom_kv_cache.replace_kv_cache_with_quantized_kv_cache(model)
        model = sdpa.replace_sdpa_with_quantized_sdpa(model)
    made: nn.Module = model
    return made


def _step(position: int, tokens: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    return torch.randint(VOCABULARY, (1, tokens)), {"input_pos": torch.tensor([position])}


_TOKENS = torch.export.Dim("tokens", min=1, max=CONTEXT - 1)


def _case(name: str, make: Callable[[], nn.Module]) -> Case:
    """Five tokens at once, then two single ones."""

    def build() -> tuple[nn.Module, tuple[Any, ...]]:
        load_operators()
        return make(), _step(0, 5)

    return Case(
        f"llm/{name}",
        build,
        dynamic_shapes=({1: _TOKENS}, {"input_pos": {}}),
        calls=lambda: [_step(5, 1), _step(6, 1)],
        targets=f"{TARGETS}|xnnpack:int4*",
        plain_targets="",  # 16 s a cell
        tags=frozenset({"llm", "model"}),
    )


CASES = [
    _case("llama", lambda: _make(_LLAMA)),
    _case("llama_embedding_4bit", lambda: _make(_LLAMA, embedding="4,32")),
    _case("llama_embedding_8bit", lambda: _make(_LLAMA, embedding="8,0")),
    _case("llama_quantized_cache", lambda: _make(_LLAMA, quantized_cache=True)),
    _case("qwen3", lambda: _make(_QWEN3)),
    _case("qwen3_quantized_cache", lambda: _make(_QWEN3, quantized_cache=True)),
    _case("gemma3", lambda: _make(_GEMMA3)),
    _case("qwen3_5", lambda: _make(_QWEN35)),
]
