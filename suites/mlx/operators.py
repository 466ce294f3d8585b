"""Upstream's custom operators that become several instructions or chains of instructions.

Mixtures of experts branch on the number of tokens. The gated delta rule scans over time. Sampling
branches on the temperature and draws random bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.export import Dim
from torch.nn import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

from harness import Case
from suites.build import Input, distinct, full, ints, nn_case, randn, uniform
from suites.mlx.only import on_mlx

_LENGTH = Dim("length", min=2, max=16)
_ROWS = Dim("rows", min=2, max=6)


class Experts(torch.nn.Module):
    """A stack of matrices, one chosen for each token.

    Attributes:
        last: name of the third input: ``lhs_indices`` or ``sorted_indices``.
    """

    def __init__(self, last: str = "lhs_indices") -> None:
        super().__init__()
        self.last = last
        self.weight = torch.nn.Parameter(torch.randn(4, 8, 6))

    def forward(
        self,
        x: torch.Tensor,
        choice: torch.Tensor | None = None,
        last: torch.Tensor | None = None,
    ) -> torch.Tensor:
        options = {} if last is None else {self.last: last}
        chosen: torch.Tensor = torch.ops.mlx.gather_mm(x, self.weight, choice, **options)
        return chosen


class Routed(torch.nn.Module):
    """Upstream's mixture of experts after a router."""

    def __init__(self, sort_from: int, best: int = 2, **options: Any) -> None:
        super().__init__()
        from executorch.backends.mlx.llm.switch import SwitchMLP, pack_all_switch_linears

        self.best = best
        self.router = torch.nn.Linear(8, 4)
        self.experts = SwitchMLP(8, 12, 4, sort_cutoff=sort_from, **options)
        pack_all_switch_linears(self.experts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares, choice = torch.topk(torch.softmax(self.router(x), -1), self.best)
        mixed: torch.Tensor = self.experts(x, shares, choice, self.best)
        return mixed


class Positions(torch.nn.Module):
    """Adds the first rows of a table, which the example input reads completely."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(6, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table[: x.shape[0]]


class SizesBetween(torch.nn.Module):
    """Experts, with another value of dynamic shape between gathering and scattering."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 8, 8))

    def forward(self, x: torch.Tensor, choice: torch.Tensor) -> torch.Tensor:
        gathered, chosen, is_sorted, order = torch.ops.mlx.moe_gather_inputs(x, choice, 2, 4)
        tokens = x.shape[0]
        other = torch.ones(tokens * 3, tokens * 2, tokens // 100 + 1).sum()
        results = torch.ops.mlx.gather_mm(gathered, self.weight, chosen, None, is_sorted)
        mixed: torch.Tensor = torch.ops.mlx.moe_scatter_outputs(results, is_sorted, order, 2)
        return mixed * other


def _tokens(counts: tuple[int, ...], *others: Callable[[int], Input]) -> dict[str, Any]:
    calls = [(randn(count, 8), *(other(count) for other in others)) for count in counts]
    return {"dynamic_shapes": ({0: _LENGTH},) * (1 + len(others)), "calls": calls}


EXPERTS = [
    nn_case("gather_mm/one_row_a_token", Experts, randn(5, 1, 8), ints(0, 4, 5)),
    nn_case("gather_mm/rows", Experts, randn(5, 3, 8), ints(0, 4, 5)),
    nn_case("gather_mm/choice_int32", Experts, randn(5, 1, 8), ints(0, 4, 5, dtype=torch.int32)),
    nn_case("gather_mm/two_choices_a_token", Experts, randn(5, 1, 1, 8), ints(0, 4, 5, 2)),
    nn_case("gather_mm/no_choice", Experts, randn(4, 3, 8)),
    nn_case("gather_mm/choice_on_both_sides", Experts, randn(5, 3, 8), ints(0, 4, 5),
            distinct(5, step=1.0, offset=2.0, dtype=torch.int64)),
    nn_case("gather_mm/told_unsorted", partial(Experts, "sorted_indices"), randn(5, 1, 8),
            ints(0, 4, 5), full(0, dtype=torch.int32)),
    nn_case("moe/sorted", partial(Routed, 1), randn(5, 8)),
    nn_case("moe/unsorted", partial(Routed, 64), randn(5, 8)),
    nn_case("moe/one_token_one_expert", partial(Routed, 1, 1), randn(1, 8)),
    nn_case("moe/gate_and_up_in_one", partial(Routed, 1, fuse_gate_up=True), randn(5, 8)),
    nn_case("moe/dynamic", partial(Routed, 4), randn(6, 8), **_tokens((2, 4, 5, 16))),
    nn_case("moe/dynamic_two_layers", lambda: torch.nn.Sequential(Routed(4), Routed(8)),
            randn(6, 8), **_tokens((2, 5, 9, 16))),
    nn_case("moe/dynamic_sizes_between", SizesBetween, randn(6, 8), ints(0, 4, 6, 2),
            **_tokens((2, 4, 5, 16), lambda count: ints(0, 4, count, 2))),
]  # fmt: skip


class DeltaRule(torch.nn.Module):
    """Upstream's recurrent layer, its state in a buffer, without its Metal kernel."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(1, heads, 4, 5))

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, b: torch.Tensor
    ) -> torch.Tensor:
        out: torch.Tensor = torch.ops.mlx.gated_delta_rule(q, k, v, g, b, self.state, False)
        return out


def _delta(name: str, *lengths: int, heads: int = 2, **options: Any) -> Case:
    def step(length: int) -> tuple[Input, ...]:
        key = uniform(-0.5, 0.5, 1, length, 2, 5)
        gate = uniform(0.0, 1.0, 1, length, heads)
        return key, key, randn(1, length, heads, 4), gate, gate

    calls = [step(length) for length in lengths]
    layer = partial(DeltaRule, heads)
    return nn_case(f"gated_delta_rule/{name}", layer, *calls[0], calls=calls[1:], **options)


DELTA_RULE = [
    _delta("one_step", 1, 1, 1),
    _delta("three_steps", 3, 3),
    _delta("grouped_heads", 3, 3, heads=4),
    _delta("dynamic", 3, 2, 7, dynamic_shapes=({1: _LENGTH},) * 5),
]


class Sample(torch.nn.Module):
    """Upstream's sampling from logits, with a seed."""

    def forward(
        self, logits: torch.Tensor, temperature: torch.Tensor, k: torch.Tensor, p: torch.Tensor
    ) -> torch.Tensor:
        seed = torch.tensor(7)
        token: torch.Tensor = torch.ops.mlx.sample(logits, temperature, k, p, seed)
        return token


def _sample(name: str, temperature: float, k: int, p: float) -> Case:
    given = (full(temperature), full(k, dtype=torch.int64), full(p))
    return nn_case(f"sample/{name}", Sample, distinct(3, 20), *given)


class Head(torch.nn.Module):
    """The most likely token after the last one; embedding and projection share their weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(11, 6)
        self.project = torch.nn.Linear(6, 11, bias=False)
        self.project.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logits = self.project(torch.tanh(self.embed(tokens)))
        return logits, logits[:, -1].argmax(-1), *torch.topk(logits[:, -1], 3)


HEADS = [
    # For any random numbers, only the most likely token remains.
    _sample("greedy", 0.0, 20, 1.0),
    _sample("best_of_one", 0.8, 1, 1.0),
    _sample("smallest_nucleus", 0.8, 20, 1e-6),
    nn_case("head/tied_dynamic", Head, ints(0, 11, 2, 5), dynamic_shapes=({1: _LENGTH},),
            calls=[(ints(0, 11, 2, length),) for length in (2, 16)]),
]  # fmt: skip


def _transposed(name: str, rank: int, **options: Any) -> Case:
    layer = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)[rank - 1]
    return nn_case(
        f"transposed_convolution/{name}_{rank}d",
        lambda: layer(4, 6, 2, **options),
        randn(1, 4, *(5, 4, 3)[:rank]),
    )


TRANSPOSED = [
    case
    for rank in (1, 2, 3)
    for case in (
        _transposed("stride", rank, stride=3),
        _transposed("padding", rank, padding=1),
        _transposed("output_padding", rank, stride=2, output_padding=1),
        _transposed("dilation", rank, dilation=2),
        _transposed("no_bias", rank, bias=False),
        _transposed("all", rank, stride=3, padding=1, output_padding=2, dilation=2),
    )
]
TRANSPOSED += [_transposed("groups", rank, groups=2) for rank in (1, 2)]
TRANSPOSED += [_transposed("groups_and_stride", rank, stride=3, groups=2) for rank in (1, 2)]

ROWS = [
    nn_case("add/rows_of_full_table", Positions, randn(6, 8), dynamic_shapes=({0: _ROWS},),
            calls=[(randn(count, 8),) for count in (2, 5)]),
]  # fmt: skip

CASES: list[Case] = on_mlx(*EXPERTS, *ROWS, *DELTA_RULE, *HEADS, *TRANSPOSED)
