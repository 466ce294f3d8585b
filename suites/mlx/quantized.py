"""Layers whose weights the quantizing recipes convert; the cases themselves are float modules.

A block of weights is 16 or 32 adjacent elements of a row, so the widths here are multiples of these
numbers and values between them. On targets that quantize nothing they are plain linear layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import cycle

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import Input, add_vacuous_reasons, ints, nn_case, randn

_QUANTIZING = "mlx:int4|mlx:mxfp8|mlx:nvfp4"
_OTHER_BITS = "mlx:int2|mlx:int5|mlx:int6|mlx:int8"
_ALL_BITS_IN_A_PLAIN_RUN = ("quantized_linear/3d_bias", "quantized_embedding/tied")
_IN_TURNS = ("mlx:int4|mlx:mxfp8", "mlx:nvfp4")
"""Targets of the other layers in a plain run."""
_BATCH = torch.export.Dim("batch", min=1, max=64)
_LENGTH = torch.export.Dim("length", min=1, max=32)


def _linear(
    columns: int, rows: int, edit: Callable[[torch.Tensor], object], bias: bool = False
) -> torch.nn.Linear:
    """Make a linear layer and edit its weight in place."""
    layer = torch.nn.Linear(columns, rows, bias=bias)
    with torch.no_grad():
        edit(layer.weight)
    return layer


def _zero_rows(weight: torch.Tensor) -> None:
    weight[::3] = 0


def _zero_block(weight: torch.Tensor) -> None:
    weight[:, :32] = 0


def _outlier(weight: torch.Tensor) -> None:
    weight[:, 5] *= 100


def _constant(weight: torch.Tensor) -> None:
    weight.fill_(0.37)


def _scaled(factor: float, weight: torch.Tensor) -> None:
    weight *= factor


class Tied(torch.nn.Module):
    """An embedding whose weight is also the output projection."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(tokens, width)
        self.inner = torch.nn.Linear(width, width)
        self.head = torch.nn.Linear(width, tokens, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = F.relu(self.inner(self.embed(tokens)))
        projected: torch.Tensor = self.head(hidden)
        return projected


class Gated(torch.nn.Module):
    """The MLP of a Llama layer."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(width, inner, bias=False)
        self.up = torch.nn.Linear(width, inner, bias=False)
        self.down = torch.nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        down: torch.Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return down


class DenseExperts(torch.nn.Module):
    """A mixture of experts that computes all experts and weights the results."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.router = torch.nn.Linear(width, experts)
        self.experts = torch.nn.ModuleList(Gated(width, 2 * width) for _ in range(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares = torch.softmax(self.router(x), -1)
        results = torch.stack([expert(x) for expert in self.experts], -1)
        return (results * shares.unsqueeze(-2)).sum(-1)


class Experts(torch.nn.Module):
    """One expert per token, from a stack of weights (executorch's layer)."""

    def __init__(self, columns: int, rows: int, experts: int) -> None:
        super().__init__()
        from executorch.backends.mlx.llm.switch import SwitchLinear

        self.experts = SwitchLinear(columns, rows, experts)
        self.experts.pack()

    def forward(self, x: torch.Tensor, choice: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = self.experts(x.unsqueeze(1), choice)
        return chosen.squeeze(1)


class Routed(torch.nn.Module):
    """A mixture of experts with the best two experts of each token (executorch's layers)."""

    def __init__(self, width: int, experts: int, sort_from: int) -> None:
        super().__init__()
        from executorch.backends.mlx.llm.switch import SwitchMLP, pack_all_switch_linears

        self.router = torch.nn.Linear(width, experts)
        self.experts = SwitchMLP(width, 2 * width, experts, sort_cutoff=sort_from)
        pack_all_switch_linears(self.experts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares, choice = torch.topk(torch.softmax(self.router(x), -1), 2)
        mixed: torch.Tensor = self.experts(x, shares, choice, 2)
        return mixed


def _lin(name: str, columns: int, rows: int, *shape: int, bias: bool = False) -> Case:
    layer = partial(torch.nn.Linear, columns, rows, bias=bias)
    return nn_case(f"quantized_linear/{name}", layer, randn(*shape, columns), tags=["weights"])


def _edited(name: str, edit: Callable[[torch.Tensor], object]) -> Case:
    layer = partial(_linear, 64, 32, edit)
    return nn_case(f"quantized_linear/{name}", layer, randn(3, 64), tags=["weights"])


def _embedding(name: str, tokens: Input, width: int = 64) -> Case:
    layer = partial(torch.nn.Embedding, 48, width)
    return nn_case(f"quantized_embedding/{name}", layer, tokens, tags=["weights"])


def _in_dtype(name: str, module: Callable[[], torch.nn.Module], *inputs: Input) -> list[Case]:
    """Make the case in both half-precision dtypes."""
    cases = []
    for word, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):

        def build(dtype: torch.dtype = dtype) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
            drawn = [spec.make() for spec in inputs]
            cast = [x.to(dtype) if x.is_floating_point() else x for x in drawn]
            return module().to(dtype), tuple(cast)

        cases.append(Case(f"{name}_{word}", build, tags=frozenset({"ops", "weights", word})))
    return cases


_LAYERS: list[Case] = [
    _lin("1d", 64, 32),
    _lin("2d_bias", 64, 32, 3, bias=True),
    _lin("3d_bias", 64, 32, 2, 5, bias=True),
    _lin("4d", 64, 32, 2, 3, 2),
    _lin("one_row", 64, 32, 1),
    _lin("many_rows", 64, 32, 70),
    _lin("one_block_of_16", 16, 32, 3),
    _lin("one_block_of_32", 32, 16, 3),
    _lin("three_blocks_of_16", 48, 32, 3, bias=True),
    _lin("three_blocks_of_32", 96, 32, 3),
    _lin("one_simd_block", 512, 16, 3),
    _lin("long_inner_dim", 2080, 16, 2),
    _lin("odd_features", 64, 17, 3, bias=True),
    _lin("one_feature", 64, 1, 3),
    _lin("many_features", 64, 1040, 2),
    _edited("zero_rows", _zero_rows),
    _edited("zero_block", _zero_block),
    _edited("outlier", _outlier),
    _edited("constant", _constant),
    _edited("tiny_weights", partial(_scaled, 1e-4)),
    _edited("huge_weights", partial(_scaled, 1e5)),
    nn_case(
        "quantized_linear/not_divisible_stays_float",
        lambda: torch.nn.Sequential(torch.nn.Linear(40, 64), torch.nn.Linear(64, 16)),
        randn(3, 40),
        tags=["weights"],
    ),
    nn_case(
        "quantized_linear/shared_twice",
        lambda: torch.nn.Sequential(*[torch.nn.Linear(64, 64)] * 2),
        randn(3, 64),
        tags=["weights"],
    ),
    nn_case(
        "quantized_linear/dynamic_batch",
        lambda: torch.nn.Linear(64, 32),
        randn(4, 64),
        dynamic_shapes=[{0: _BATCH}],
        calls=[[randn(1, 64)], [randn(64, 64)]],
        tags=["weights"],
    ),
    *_in_dtype("quantized_linear/bias", lambda: torch.nn.Linear(64, 32), randn(3, 64)),
    _embedding("one_token", ints(0, 48)),
    _embedding("1d", ints(0, 48, 9)),
    _embedding("2d", ints(0, 48, 2, 5)),
    _embedding("int32_tokens", ints(0, 48, 2, 5, dtype=torch.int32)),
    _embedding("one_block_of_16", ints(0, 48, 7), 16),
    _embedding("three_blocks_of_32", ints(0, 48, 7), 96),
    nn_case(
        "quantized_embedding/dynamic_length",
        lambda: torch.nn.Embedding(48, 64),
        ints(0, 48, 2, 5),
        dynamic_shapes=[{1: _LENGTH}],
        calls=[[ints(0, 48, 2, 1)], [ints(0, 48, 2, 32)]],
        tags=["weights"],
    ),
    *_in_dtype("quantized_embedding/2d", lambda: torch.nn.Embedding(48, 64), ints(0, 48, 2, 5)),
    nn_case("quantized_embedding/tied", lambda: Tied(48, 64), ints(0, 48, 2, 5), tags=["weights"]),
    nn_case("quantized_mlp/gated", lambda: Gated(64, 160), randn(2, 5, 64), tags=["weights"]),
    nn_case("quantized_mlp/experts", lambda: DenseExperts(32, 3), randn(4, 32), tags=["weights"]),
]
_EXPERTS: list[Case] = [
    nn_case(
        "gather_qmm/one_expert_a_token",
        lambda: Experts(64, 48, 4),
        randn(5, 64),
        ints(0, 4, 5),
        tags=["weights", "mlx"],
    ),
    nn_case(
        "gather_qmm/routed_unsorted",
        lambda: Routed(64, 4, sort_from=64),
        randn(5, 64),
        tags=["weights", "mlx"],
    ),
    nn_case(
        "gather_qmm/routed_sorted",
        lambda: Routed(64, 4, sort_from=1),
        randn(5, 64),
        tags=["weights", "mlx"],
    ),
]

# Float experts use another gather instruction, which MLX supports on a CPU in float32 only.
CASES: list[Case] = [
    *(
        replace(
            case,
            targets=f"{_QUANTIZING}|{_OTHER_BITS}",
            plain_targets="*" if case.name in _ALL_BITS_IN_A_PLAIN_RUN else turn,
        )
        for case, turn in zip(_LAYERS, cycle(_IN_TURNS), strict=False)
    ),
    *(replace(case, targets=f"mlx:fp32|{_QUANTIZING}") for case in _EXPERTS),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "quantized_linear/bias_bf16": "a bfloat16 sum may err by as much as the values differ",
    },
)
