"""What is exported to generate: modules that keep a cache between calls.

Those of transformers and of executorch are as they are shipped, but for one thing. Their caches are
no modules and hold the tensors of the buffers that are registered beside them, so that a run with
another state, as of the oracle, would not reach them. The modules here point them at the buffers of
the run.

Both libraries are imported when a case is built.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import torch

CAPACITY = 32  # positions that a cache holds


def _bind(cache: Any, buffers: torch.nn.Module, cells: bool = True) -> None:
    """Make a static cache of transformers keep its state in buffers."""
    for number, layer in enumerate(cache.layers):
        layer.cumulative_length = getattr(buffers, f"cumulative_length_{number}")
        if cells:
            layer.keys = getattr(buffers, f"key_cache_{number}")
            layer.values = getattr(buffers, f"value_cache_{number}")


class Shipped(torch.nn.Module):
    """Tokens (1, L) and their positions (L,), of which the first counts, to logits (1, L,
    vocabulary): what ``TorchExportableModuleForDecoderOnlyLM`` exports."""

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
        """Of all layers; it has one name where some of them see a window, and another elsewhere."""
        inner: Any = self.inner
        return inner.cache if hasattr(inner, "cache") else inner.static_cache

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        _bind(self.cache, self.inner)
        logits: torch.Tensor = self.inner(input_ids=tokens, cache_position=positions)
        return logits


class ShippedForMLX(Shipped):
    """The same with MLX's caches in place of transformers', as ``export_llm_hf.py`` has it: rings
    where a layer sees a window.

    Args:
        model: its ``attn_implementation`` is "mlx".
        chunk: tokens of a call at most.
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
        for number in range(len(self.cells)):  # they are the cells' own
            delattr(self.inner, f"key_cache_{number}")
            delattr(self.inner, f"value_cache_{number}")

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        _bind(self.cache, self.inner, cells=False)
        logits: torch.Tensor = self.inner(input_ids=tokens, cache_position=positions)
        return logits


class ShippedSensing(Shipped):
    """The text decoder of a model that sees or hears: tokens (1, L), what was made of a picture or
    of sound for their places (1, L, width) and positions (L,), to logits (1, L, vocabulary). Where
    a token is the placeholder, the second stands for it.

    ``TorchExportableModuleForVLM`` exports this decoder, over tokens alone and without its head;
    embeddings and logits are a runner's to make there.
    """

    def __init__(self, model: Any, placeholder: int) -> None:
        from transformers import GenerationConfig

        decoder = model.get_decoder()
        decoder.generation_config = GenerationConfig(use_cache=True)  # it has none without a head
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
    """Tokens (1, L), what an encoder made (1, S, width), positions (L,), to logits (1, L,
    vocabulary): ``Seq2SeqLMDecoderExportableModuleWithStaticCache``.

    It leaves out that T5 divides by the root of its width (``scale_decoder_outputs``): these logits
    are so many times larger than the model's own.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        from transformers.integrations import executorch

        if not hasattr(model, "lm_head"):  # Whisper has another name for it
            model.lm_head = model.proj_out
        # It tells torch how to take a cache apart, though none goes in or out; ExecutorchExporter
        # (``exporter.py``) tells it otherwise, and whoever comes first in a process is heard.
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
        # One and the same; torch.export puts a copy back for each where it can take caches apart.
        inner.cache.self_attention_cache = inner.static_cache
        # A program computes the keys of what was heard in each call; eager would keep them.
        inner.cache.cross_attention_cache = DynamicCache(config=inner.config)
        inner.cache.is_updated = dict.fromkeys(inner.cache.is_updated, False)
        logits: torch.Tensor = inner(tokens, heard, positions)
        return logits


class _Cells:
    """What transformers takes for a cache: of layers that attend, keys and values, which a step
    writes to at its positions; of short convolutions, what they saw last."""

    def __init__(self, buffers: dict[str, torch.Tensor], positions: torch.Tensor) -> None:
        self.buffers = buffers
        self.positions = positions

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> list[torch.Tensor]:
        """Of a layer, all that was written."""
        found = [self.buffers[f"keys_{layer}"], self.buffers[f"values_{layer}"]]
        for cells, new in zip(found, (keys, values), strict=True):
            cells.index_copy_(2, self.positions, new)
        return found

    def get_conv_state(self, layer: int, state_idx: int = 0) -> torch.Tensor:
        """Of a convolution, the tokens before this one, which it writes to; none at position 0."""
        return self.buffers[f"conv_{layer}"].mul_(self.positions > 0)

    def is_recording_past(self, layer: int) -> bool:
        """Whether states are kept for going back."""
        return False


class Positioned(torch.nn.Module):
    """Tokens (1, L), positions (L,) and a mask (1, 1, L, capacity) to logits (1, L, vocabulary):
    where the cache is written to and what of it is seen is given, and nothing is counted. Where
    layers convolve, L is 1."""

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
    """Mamba: a token (1, 1) and its position (1,) to logits (1, 1, vocabulary). What its
    convolutions and recurrences remember is in buffers, which position 0 clears."""

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
