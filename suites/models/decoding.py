"""Decoders with a cache that is kept between calls, as they are exported for generation.

The modules of transformers and executorch are used unchanged, except for their caches. A cache is
not a module: it holds references to buffers that are registered elsewhere, so a run with replaced
buffers (such as the oracle) would not affect it. The modules here bind the caches to the buffers of
the current run.

Both libraries are imported when a case is built.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import torch

CAPACITY = 32  # positions that a cache holds


def _bind(cache: Any, buffers: torch.nn.Module, cells: bool = True) -> None:
    """Bind the state of a static cache of transformers to buffers."""
    for number, layer in enumerate(cache.layers):
        layer.cumulative_length = getattr(buffers, f"cumulative_length_{number}")
        if cells:
            layer.keys = getattr(buffers, f"key_cache_{number}")
            layer.values = getattr(buffers, f"value_cache_{number}")


class Shipped(torch.nn.Module):
    """The module that ``TorchExportableModuleForDecoderOnlyLM`` exports.

    It maps tokens (1, L) and positions (L,) to logits (1, L, vocabulary). Only the first position
    is used.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

        model.generation_config.cache_implementation = "static"
        exportable = TorchExportableModuleForDecoderOnlyLM(
            model, batch_size=1, max_cache_len=CAPACITY
        )
        self.inner = exportable.model

    @property
    def cache(self) -> Any:
        """The cache of all layers; its attribute's name differs for models with sliding windows."""
        inner: Any = self.inner
        return inner.cache if hasattr(inner, "cache") else inner.static_cache

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        _bind(self.cache, self.inner)
        logits: torch.Tensor = self.inner(input_ids=tokens, cache_position=positions)
        return logits


class ShippedForMLX(Shipped):
    """Like :class:`Shipped` with MLX's caches, as in ``export_llm_hf.py``.

    Layers with a sliding window have ring buffers.

    Args:
        model: a model whose ``attn_implementation`` is "mlx".
        chunk: largest number of tokens of a call.
    """

    def __init__(self, model: Any, chunk: int) -> None:
        super().__init__(model)
        from executorch.backends.mlx.llm import exportable, hf_attention

        exportable.install_mlx_cache(
            self.inner, model.config, max_cache_len=CAPACITY, prefill_chunk_size=chunk
        )
        if getattr(model.config, "sliding_window", None) is not None:
            hf_attention.register_mlx_sliding_window_attention(self.inner)
            model.config._attn_implementation = "mlx_sliding_window"
        self.cells = self.cache.kv_cache
        for number in range(len(self.cells)):  # MLX's cells have their own buffers
            delattr(self.inner, f"key_cache_{number}")
            delattr(self.inner, f"value_cache_{number}")

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        _bind(self.cache, self.inner, cells=False)
        logits: torch.Tensor = self.inner(input_ids=tokens, cache_position=positions)
        return logits


class ShippedSensing(Shipped):
    """The text decoder of a multimodal model.

    It maps tokens (1, L), image or audio embeddings (1, L, width) and positions (L,) to logits
    (1, L, vocabulary). The embedding replaces every placeholder token.

    ``TorchExportableModuleForVLM`` exports this decoder for tokens only and without its head;
    there, the runner computes embeddings and logits.
    """

    def __init__(self, model: Any, placeholder: int) -> None:
        from transformers import GenerationConfig

        decoder = model.get_decoder()
        decoder.generation_config = GenerationConfig(
            use_cache=True
        )  # a model without a head has none
        super().__init__(decoder)
        self.head = model.lm_head
        self.placeholder = placeholder

    def forward(  # type: ignore[override]
        self, tokens: torch.Tensor, sensed: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        _bind(self.cache, self.inner)
        words = self.inner.model.get_input_embeddings()(tokens)
        states = self.inner(
            inputs_embeds=torch.where((tokens == self.placeholder)[..., None], sensed, words),
            cache_position=positions,
        )
        logits: torch.Tensor = self.head(states)
        return logits


class ShippedListening(torch.nn.Module):
    """The decoder that ``Seq2SeqLMDecoderExportableModuleWithStaticCache`` exports.

    It maps tokens (1, L), encoder states (1, S, width) and positions (L,) to logits (1, L,
    vocabulary). It omits T5's division by the square root of the width (``scale_decoder_outputs``):
    its logits are larger than the model's by that factor.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        from transformers.integrations import executorch

        if not hasattr(model, "lm_head"):  # Whisper names it differently
            model.lm_head = model.proj_out
        # It registers caches as pytrees, though none is an input or output. ExecutorchExporter
        # (``exporter.py``) registers them differently, and a process keeps the first registration.
        with patch.object(executorch, "register_dynamic_cache_export_support"):
            self.inner = executorch.Seq2SeqLMDecoderExportableModuleWithStaticCache(
                model, CAPACITY, 1
            )

    def forward(
        self, tokens: torch.Tensor, heard: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        from transformers import DynamicCache

        inner: Any = self.inner
        _bind(inner.static_cache, inner)
        # One object; torch.export makes a copy for each attribute when the cache is a pytree.
        inner.cache.self_attention_cache = inner.static_cache
        # A program computes the cross-attention keys in each call; eager would cache them.
        inner.cache.cross_attention_cache = DynamicCache(config=inner.config)
        inner.cache.is_updated = dict.fromkeys(inner.cache.is_updated, False)
        logits: torch.Tensor = inner(tokens, heard, positions)
        return logits


class _Cells:
    """A cache with the interface of transformers, kept in buffers.

    Attention layers have keys and values, written at the positions of a step. Short convolutions
    have their last inputs.
    """

    def __init__(self, buffers: dict[str, torch.Tensor], positions: torch.Tensor) -> None:
        self.buffers = buffers
        self.positions = positions

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> list[torch.Tensor]:
        """Write keys and values of a layer, and return all that the cache holds for it."""
        found = [self.buffers[f"keys_{layer}"], self.buffers[f"values_{layer}"]]
        for cells, new in zip(found, (keys, values), strict=True):
            cells.index_copy_(2, self.positions, new)
        return found

    def get_conv_state(self, layer: int, state_idx: int = 0) -> torch.Tensor:
        """The previous inputs of a convolution, which it updates; zeros at position 0."""
        return self.buffers[f"conv_{layer}"].mul_(self.positions > 0)

    def is_recording_past(self, layer: int) -> bool:
        """Whether earlier states are kept for a rollback."""
        return False


class Positioned(torch.nn.Module):
    """A decoder whose cache positions and mask are inputs, so that it counts nothing itself.

    It maps tokens (1, L), positions (L,) and a mask (1, 1, L, capacity) to logits (1, L,
    vocabulary). L is 1 for models with convolutions.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        config = model.config
        kinds = getattr(config, "layer_types", None) or ["full_attention"]
        self.convolves = "conv" in kinds
        width = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
        cells = torch.zeros(1, config.num_key_value_heads, CAPACITY, width)
        for layer in range(config.num_hidden_layers):
            if self.convolves and kinds[layer] == "conv":
                past = torch.zeros(1, config.hidden_size, config.conv_L_cache)
                self.register_buffer(f"conv_{layer}", past)
            else:
                self.register_buffer(f"keys_{layer}", cells.clone())
                self.register_buffer(f"values_{layer}", cells.clone())

    def forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        own = dict(self.named_buffers(recurse=False))
        logits: torch.Tensor = self.model(
            input_ids=tokens,
            position_ids=positions[None],
            attention_mask={"full_attention": mask, "conv": None} if self.convolves else mask,
            past_key_values=_Cells(own, positions),
        ).logits
        return logits


class Recurrent(torch.nn.Module):
    """Mamba, with the states of its convolutions and recurrences in buffers.

    It maps a token (1, 1) and its position (1,) to logits (1, 1, vocabulary). Position 0 clears the
    states.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        config = model.config
        self.layers = config.num_hidden_layers
        for layer in range(self.layers):
            for kind, size in (("conv", config.conv_kernel), ("recurrent", config.state_size)):
                state = torch.zeros(1, config.intermediate_size, size)
                self.register_buffer(f"{kind}_{layer}", state)

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        from transformers import DynamicCache

        cache = DynamicCache(config=self.model.config)
        for number, layer in enumerate(cache.layers):
            for kind in ("conv", "recurrent"):
                state = getattr(self, f"{kind}_{number}")
                state.mul_(position > 0)
                getattr(layer, f"{kind}_states")[0] = state
                getattr(layer, f"is_{kind}_states_initialized")[0] = True
            layer.has_previous_state[0] = True
        logits: torch.Tensor = self.model(input_ids=token, cache_params=cache).logits
        return logits
