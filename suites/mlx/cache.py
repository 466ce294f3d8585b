"""KV caches over several calls: the off-graph cache, and upstream's caches in mutable buffers.

``kvcache::update_and_attend`` keeps its state in a cache that the application installs: for the
eager runs that is a :class:`Histories`, for the delegate what the backend makes of the program's
``constant_methods``, which have the names under which upstream's exporter publishes them.

Upstream's classes are imported when a case is built: on Linux only after the MLX backend was
asked whether it is available, which is when it completes the package.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch.export import Dim

from harness import Case, Inputs

Steps = Sequence[tuple[int, int]]
"""Position and number of tokens of each call; the first is exported."""

CAPACITY = 32
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 8

_KEY = "conform"
_ACTIVE = ExitStack()


class Histories:
    """The reference of the cache: each layer keeps all entries before a step's position.

    A step drops the entries at and after its position, so position 0 begins a new run. The mask
    decides which entries are attended.
    """

    def __init__(self, windows: Sequence[int]) -> None:
        self.windows = windows
        self.layers: dict[int, list[torch.Tensor]] = {}

    def update_and_fetch(
        self, layer: int, k: torch.Tensor, v: torch.Tensor, position: torch.Tensor
    ) -> Any:
        """Return K, V and the mask of ``attend``, as upstream's reference caches do."""
        from executorch.extension.llm.cache.reference_cache import AttendSpec, MaskKind

        start = int(position[0, 0])
        cells = [k, v]
        if start:
            before = [kept[:, :, :start] for kept in self.layers[layer]]
            if before[0].shape[2] != start:
                raise ValueError(f"layer {layer}: nothing was written right before {start}")
            cells = [torch.cat(pair, 2) for pair in zip(before, cells, strict=True)]
        self.layers[layer] = cells
        end = cells[0].shape[2]
        ahead = torch.arange(end) - torch.arange(start, end)[:, None]
        window = self.windows[layer] or end
        return *cells, AttendSpec(MaskKind.EXPLICIT, (ahead <= 0) & (ahead > -window))

    def install(self) -> None:
        """Install this as the cache of all eager runs, including runs of exported graphs."""
        from executorch.extension.llm.cache.update_and_attend import REGISTRY

        REGISTRY.install(_KEY, self)
        _activate()


@functools.cache
def _activate() -> None:
    from executorch.extension.llm.cache.update_and_attend import REGISTRY

    _ACTIVE.enter_context(REGISTRY.active(_KEY))


class OffGraph(torch.nn.Module):
    """Attention layers over the off-graph cache; each takes the previous layer's result as query.

    Attributes:
        constant_methods: what ``_export_with_offgraph_cache`` of upstream's ``export_llm_hf.py``
            passes to ``to_edge_transform_and_lower`` under that name.
    """

    def __init__(
        self,
        windows: Sequence[int],
        kv_heads: int,
        capacity: int,
        chunk: int,
        out_dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.histories = Histories(windows)
        self.out_dtype = out_dtype
        self.constant_methods = layout(windows, kv_heads, HEAD_DIM, capacity, chunk)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, position: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        self.histories.install()
        results: list[torch.Tensor] = []
        out_dtype = self.out_dtype or q.dtype
        for layer in range(len(self.histories.windows)):
            q = torch.ops.kvcache.update_and_attend(
                q, k, v, position, layer, HEAD_DIM**-0.5, out_dtype
            )
            results.append(q)
            k, v = v, k  # so that layers differ
        return tuple(results)


def layout(
    windows: Sequence[int], kv_heads: int, head_dim: int, capacity: int, chunk: int
) -> dict[str, Any]:
    """Constant methods that describe a cache; a window of 0 means a flat layer."""
    layers = len(windows)
    return {
        "get_n_caches": layers,
        "get_kv_heads": torch.tensor([kv_heads] * layers, dtype=torch.int32),
        "get_head_dims": torch.tensor([head_dim] * layers, dtype=torch.int32),
        "get_windows": torch.tensor(windows, dtype=torch.int32),
        "get_prefill_chunk_size": chunk,
        "get_max_ctx_len": capacity,
    }


def off_graph(
    name: str,
    steps: Steps,
    windows: Sequence[int] = (0,),
    kv_heads: int = KV_HEADS,
    capacity: int = CAPACITY,
    out_dtype: torch.dtype | None = None,
    position: torch.dtype = torch.int32,
) -> Case:
    """Make a case of the operator; the longest step is the upper bound of the dynamic dimension."""
    chunk = max(tokens for _, tokens in steps)

    def step(start: int, tokens: int) -> Inputs:
        return *_qkv(tokens, kv_heads), torch.arange(start, start + tokens, dtype=position)[:, None]

    module = partial(OffGraph, windows, kv_heads, capacity, chunk, out_dtype)
    length = Dim("length", min=1, max=max(chunk, 2))
    shapes = ({2: length}, {2: length}, {2: length}, {0: length}) if chunk > 1 else None
    return _stateful(f"update_and_attend/{name}", module, step, steps, shapes)


class DecoderOffGraph(torch.nn.Module):
    """A decoder of transformers as upstream exports it with the off-graph cache.

    Args:
        make: makes the model from options of its config; its layers see all positions.
        chunk: largest number of tokens of a call.

    Attributes:
        constant_methods: see :class:`OffGraph`.
    """

    def __init__(self, make: Callable[..., Any], chunk: int) -> None:
        super().__init__()
        from executorch.backends.mlx.llm import hf_attention

        hf_attention.register_mlx_offgraph_attention()
        model = make(attn_implementation="mlx_offgraph")
        config = model.config
        windows = (0,) * config.num_hidden_layers
        self.histories = Histories(windows)
        self.inner = hf_attention.OffGraphExportWrapper(model)
        self.constant_methods = layout(
            windows, config.num_key_value_heads, config.head_dim, CAPACITY, chunk
        )

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.histories.install()
        logits: torch.Tensor = self.inner(tokens, position)
        return logits


class Full(torch.nn.Module):
    """Upstream's ``KVCache``, read completely, up to its filled part, or by attention."""

    def __init__(self, read: str, by_number: bool = False) -> None:
        super().__init__()
        from executorch.backends.mlx.llm.cache import KVCache

        self.read = read
        self.by_number = by_number
        self.cache = KVCache(1, CAPACITY, KV_HEADS, HEAD_DIM, enable_dynamic_shape=True)

    def forward(
        self, position: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> Any:
        start = position[0].item()
        end = start + k.shape[2]
        torch._check(start >= 0)
        torch._check(end <= CAPACITY)
        keys, values = self.cache.update(start if self.by_number else position, k, v)
        if self.read == "whole":
            return keys, values
        if self.read == "filled":
            return keys[:, :, :end], values[:, :, :end]
        return torch.ops.mlx.custom_sdpa(q, keys, values, start_pos=start, is_causal=True)


class Ring(torch.nn.Module):
    """Upstream's ``RingBufferKVCache`` and the attention of ``get_mlx_sliding_window_sdpa``."""

    def __init__(self, window: int, chunk: int, attend: bool) -> None:
        super().__init__()
        from executorch.backends.mlx.llm.cache import RingBufferKVCache

        self.attend = attend
        self.cache = RingBufferKVCache(1, window, KV_HEADS, HEAD_DIM, max_write_len=chunk)

    def forward(
        self, position: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> Any:
        start, tokens = position[0].item(), k.shape[2]
        torch._check(start >= 0)
        keys, values = self.cache.update(start, k, v)
        if not self.attend:
            return -keys, -values
        mask = self.cache.create_sliding_window_mask(start, tokens)
        # All cells are attended; the mask excludes empty ones.
        first = self.cache.buffer_size - tokens
        return torch.ops.mlx.custom_sdpa(q, keys, values, start_pos=first, attn_mask=mask)


class HFStatic(torch.nn.Module):
    """Upstream's ``HFStaticCache`` with two layers, updated one after the other."""

    def __init__(self) -> None:
        super().__init__()
        from executorch.backends.mlx.llm.cache import HFStaticCache

        self.cache = HFStaticCache(_llama_config())
        self.layers = self.cache.kv_cache  # the cache is not a module: its buffers need a parent

    def forward(
        self, position: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        first = self.cache.update(k, v, 0, {"cache_position": position})
        second = self.cache.update(v, k, 1, {"cache_position": position})
        return tuple(-cells for cells in (*first, *second))


def _llama(**options: Any) -> Any:
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM(_llama_config(**options))


def _llama_config(**options: Any) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=64,
        hidden_size=HEADS * HEAD_DIM,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=CAPACITY,
        **options,
    )


def in_graph(name: str, module: Callable[[], torch.nn.Module], steps: Steps, chunk: int) -> Case:
    """Make a case of a cache in mutable buffers."""

    def step(start: int, tokens: int) -> Inputs:
        return torch.tensor([start]), *_qkv(tokens, KV_HEADS)

    length = Dim("length", min=1, max=chunk)
    shapes = (None, {2: length}, {2: length}, {2: length})
    return _stateful(f"kv_cache_update/{name}", module, step, steps, shapes)


def _stateful(
    name: str,
    module: Callable[[], torch.nn.Module],
    step: Callable[[int, int], Inputs],
    steps: Steps,
    shapes: Any,
    targets: str = "mlx:fp32|mlx:fp16|mlx:bf16",
    plain_targets: str = "mlx:fp32",
) -> Case:
    return Case(
        name,
        lambda: (module(), step(*steps[0])),
        dynamic_shapes=shapes,
        calls=lambda: [step(*at) for at in steps[1:]],
        tags=frozenset({"mlx", "stateful", "fp32"}),
        targets=targets,
        plain_targets=plain_targets,
    )


def _qkv(tokens: int, kv_heads: int) -> Inputs:
    q = torch.randn(1, HEADS, tokens, HEAD_DIM)
    k, v = torch.randn(2, 1, kv_heads, tokens, HEAD_DIM)
    return q, k, v


def _tokens(start: int, count: int) -> Inputs:
    return torch.randint(0, 64, (1, count)), torch.arange(start, start + count)


_CHUNKS: Steps = [(0, 4), (4, 4), (8, 3), (11, 1), (12, 1), (13, 2)]
_DECODE: Steps = [(position, 1) for position in range(7)]
_WRAPS: Steps = [(0, 3), (3, 3), (6, 2), (8, 1), (9, 3), (12, 1)]
_LENGTH = Dim("length", min=1, max=4)

CASES: list[Case] = [
    off_graph("flat", [(0, 5), (5, 1), (6, 1)], kv_heads=HEADS),
    off_graph("flat_grouped_query", [(0, 5), (5, 1), (6, 1)]),
    off_graph("flat_multi_query", [(0, 5), (5, 1), (6, 1)], kv_heads=1),
    off_graph("flat_decode_only", _DECODE),
    off_graph("flat_chunked_prefill", _CHUNKS),
    off_graph("flat_overwritten", [(0, 6), (3, 2), (5, 1), (0, 3), (3, 1)]),
    # The pool begins with 512 cells and doubles.
    off_graph("flat_grown", [(0, 500), (500, 40), (540, 1)], capacity=600, kv_heads=1),
    off_graph("flat_full", [(0, 28), (28, 4)]),
    off_graph("position_int64", [(0, 5), (5, 1)], position=torch.int64),
    off_graph("out_fp16", [(0, 5), (5, 1)], out_dtype=torch.float16),
    off_graph("ring_decode_only", _DECODE, windows=(4,)),
    off_graph("ring_wraps", _WRAPS, windows=(4,)),
    off_graph("ring_wider_than_the_sequence", _CHUNKS, windows=(16,)),
    off_graph("ring_narrower_than_a_step", _CHUNKS, windows=(2,)),
    off_graph("ring_multi_query", _WRAPS, windows=(4,), kv_heads=1),
    off_graph("two_layers", _CHUNKS, windows=(0, 0)),
    off_graph("two_layers_flat_and_ring", _WRAPS, windows=(0, 4)),
    _stateful("update_and_attend/llama", partial(DecoderOffGraph, _llama, 4), _tokens, _CHUNKS,
              ({1: _LENGTH}, {0: _LENGTH}), targets="mlx:*"),
    in_graph("full", partial(Full, "whole"), _CHUNKS, 8),
    in_graph("full_filled", partial(Full, "filled"), _CHUNKS, 8),
    in_graph("full_filled_by_number", partial(Full, "filled", by_number=True), _CHUNKS, 8),
    in_graph("full_attended", partial(Full, "attended"), _CHUNKS, 8),
    in_graph("ring", partial(Ring, 4, 3, False), _WRAPS, 3),
    in_graph("ring_attended", partial(Ring, 5, 3, True), _WRAPS, 3),
    # Upstream's CSE pass confuses the literal 6 with the value that it numbers 6.
    in_graph("ring_attended_6_cells", partial(Ring, 4, 3, True), _WRAPS, 3),
    in_graph("hf_static", HFStatic, _CHUNKS, 8),
]  # fmt: skip
