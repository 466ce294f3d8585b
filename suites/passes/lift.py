"""Products of tensors and numbers, which ``xnnpack:fp32+lift`` makes constants or must keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.export import Dim

from harness import Case, Inputs
from suites.models import vision
from suites.selection import take_one_of

TARGETS = "xnnpack:fp32|xnnpack:fp32+lift"
_ROWS = {0: Dim("rows", min=2, max=9)}


class Scaled(torch.nn.Module):
    """Two values times a number, by ``mul.Scalar`` (Python's ``*`` uses another operator)."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scaled = torch.ops.aten.mul.Scalar(x, self.number)
        return scaled, torch.ops.aten.mul.Scalar(x + x, self.number) + scaled


class Numbers(torch.nn.Module):
    """Several numbers, each used twice, including close numbers and zeros of both signs."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        numbers = (0.1, 0.1 + 2**-30, 0.0, -0.0, 1e-40, 3)
        return [torch.ops.aten.mul.Scalar(x, number) for number in (*numbers, *numbers)]


class Branches(torch.nn.Module):
    """A product inside of a branch, whose graph has no place for a constant."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def positive(x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.mul.Scalar(x, 0.7) + 1

        def negative(x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.mul.Scalar(x, -0.7)

        return torch.ops.aten.mul.Scalar(torch.cond(x.sum() > 0, positive, negative, (x,)), 0.3)


class Attention(torch.nn.Module):
    """Decomposed attention with a mask; ``between`` is applied between a scale and the product."""

    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> None:
        super().__init__()
        self.between = between

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        scale = query.shape[-1] ** -0.25
        left = self.between(torch.ops.aten.mul.Scalar(query, scale))
        right = torch.ops.aten.mul.Scalar(key, scale).transpose(-2, -1)
        return torch.ops.aten._safe_softmax(left @ right + mask, -1) @ value


def attended(*mask: int) -> Inputs:
    """Queries, keys and values of two heads, and a mask of some shape."""
    query, key, value = (torch.randn(1, 2, 8, 16) for _ in range(3))
    return query, key, value, torch.randn(*mask)


class Fused(torch.nn.Module):
    """Attention by the fused operator."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        query, key, value, mask = inputs
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(query, key, value, attn_mask=mask)


def _case(
    name: str,
    module: Callable[[], torch.nn.Module],
    inputs: Callable[[], Inputs],
    shapes: object = None,
) -> Case:
    return Case(
        f"lift/{name}", lambda: (module(), inputs()), dynamic_shapes=shapes, targets=TARGETS,
        plain_targets="*+lift", tags=frozenset({"passes"}),
    )  # fmt: skip


def _values(dtype: torch.dtype = torch.float32) -> Inputs:
    return (torch.randn(4, 6).to(dtype),)


def _whole(dtype: torch.dtype) -> Inputs:
    return (torch.arange(-3, 9).to(dtype),)


CASES: list[Case] = [
    _case("float", partial(Scaled, 0.1), _values),
    _case("float_by_int", partial(Scaled, 3), _values),
    _case("float_by_bool", partial(Scaled, True), _values),
    _case("infinite", partial(Scaled, torch.inf), _values),
    _case("float64", partial(Scaled, 0.1), partial(_values, torch.float64)),
    _case("bfloat16", partial(Scaled, 0.1), partial(_values, torch.bfloat16)),
    _case("bfloat16_exact", partial(Scaled, 0.5), partial(_values, torch.bfloat16)),
    _case("int", partial(Scaled, 3), partial(_whole, torch.int32)),
    _case("int_by_float", partial(Scaled, 2.5), partial(_whole, torch.int64)),
    _case("bool", partial(Scaled, True), partial(_whole, torch.bool)),
    _case("bool_by_int", partial(Scaled, 7), partial(_whole, torch.bool)),
    _case("no_dimensions", partial(Scaled, 0.1), lambda: (torch.tensor(1.7),)),
    _case("one_number_each", Numbers, _values),
    _case("conditional", Branches, _values),
    _case("dynamic", partial(Scaled, 0.1), _values, (_ROWS,)),
    _case("attention", Fused, partial(attended, 8, 8)),
    _case("attention_broadcast_mask", Fused, partial(attended, 1, 1, 8, 8)),
    _case("attention_spelled", Attention, partial(attended, 8, 8)),
    _case("attention_cast", partial(Attention, lambda x: x.double().float()),
          partial(attended, 8, 8)),
    _case("attention_permuted", partial(Attention, lambda x: x.mT.contiguous().mT),
          partial(attended, 8, 8)),
    Case("lift/deit", lambda: (vision.deit(), vision.pictures(vision.SIDE)()), targets=TARGETS,
         tags=frozenset({"passes", "model"})),
]  # fmt: skip
CASES = take_one_of(2, CASES)
