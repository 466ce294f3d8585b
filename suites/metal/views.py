"""Views as operands of each kernel: offsets, gaps, repetition.

The delegate's tensors have no storage offset. A view with an offset is a separate Metal buffer;
a view with gaps or repetition is copied when it is made. Views of values that the same run computes
therefore behave differently from views of inputs and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import CANCELS, Input, add_vacuous_reasons, distinct, nn_case, op, randn
from suites.metal.only import on_metal

Tensor = torch.Tensor
Cut = Callable[[Tensor], Tensor]


def _attend(x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x, x, x)


def _added(y: Tensor) -> Tensor:
    first, second, third = torch.split(y, 4, 1)
    return first + second * third


KERNELS: dict[str, Cut] = {
    "mm": lambda part: torch.mm(part, part.new_ones(part.shape[1], 3)),
    "bmm": lambda part: torch.bmm(part[None], part.new_ones(1, part.shape[1], 3)),
    "addmm": lambda part: torch.addmm(part[0, :3], part, part.new_ones(part.shape[1], 3)),
    "convolution": lambda part: torch.conv1d(part[None], part.new_ones(2, len(part), 3)),
    "topk": lambda part: torch.topk(part, 2, -1).values,
    "tanh": torch.tanh,
    "_softmax": lambda part: torch.softmax(part, -1),
    "scaled_dot_product_attention": lambda part: _attend(part.repeat(1, 16)[None, None]),
}
"""Kernels of a (4, 4) operand."""

CUTS: dict[str, tuple[tuple[int, ...], Cut]] = {
    "second_rows": ((8, 4), lambda x: x.narrow(0, 4, 4)),
    "second_columns": ((4, 8), lambda x: x.narrow(1, 4, 4)),
    "split": ((12, 4), lambda x: torch.split(x, 4)[1]),
    "chunk_columns": ((4, 12), lambda x: x.chunk(3, 1)[1]),
    "every_second_column": ((4, 8), lambda x: x[:, 1::2]),
    "transposed": ((4, 4), lambda x: x.t()),
    "expanded_rows": ((1, 4), lambda x: x.expand(4, 4)),
    "expanded_columns": ((4, 1), lambda x: x.expand(4, 4)),
    "strided": ((40,), lambda x: x.as_strided((4, 4), (9, 2), 3)),
}
"""Views of (4, 4)."""


# Generated kernels fold any view of an input into their indices; the runtime's kernels cannot.
_OF_INPUTS = ("mm", "topk")


def _view(kernel: str, cut: str, computed: bool) -> Case:
    function, (shape, view) = KERNELS[kernel], CUTS[cut]
    source = distinct(*shape, step=0.125) if kernel == "topk" else randn(*shape)

    def run(x: Tensor) -> Tensor:
        return function(view(x * 2 + 1 if computed else x))

    where = "result" if computed else "input"
    return op(f"{kernel}/{cut}_of_{where}", run, source)


def _product(name: str, function: Cut, *inputs: Input) -> Case:
    """Make a case of views of a fallback kernel's result, which cannot be fused away."""

    def run(a: Tensor, b: Tensor) -> Tensor:
        return function(a @ b)

    return op(f"mm/{name}", run, *(inputs or (randn(6, 8), randn(8, 12))))


class Parts(torch.nn.Module):
    """A linear layer whose operands are views of a buffer."""

    def __init__(self, cut: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(12, 8))
        self.cut = cut

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.cut(self.table)


PARTS = [
    _product("halves_multiplied", lambda y: y[:, :6] * y[:, 6:]),
    _product("glu", lambda y: F.glu(y, -1)),
    _product("split_in_three", _added),
    _product("chunk_into_mm", lambda y: y.chunk(2, 1)[1] @ y.chunk(2, 1)[0]),
    _product("first_chunk_into_mm", lambda y: y.chunk(2, 0)[0] @ y.t()),
    _product("second_chunk_into_mm", lambda y: y.chunk(2, 0)[1] @ y.t()),
    _product("rows_into_bmm",
             lambda y: torch.bmm(y.view(2, 3, 12)[1:], y.view(2, 3, 12)[:1].mT.contiguous())),
    _product("narrow_into_topk", lambda y: torch.topk(y.narrow(1, 3, 6), 3).values),
    _product("narrow_into_softmax", lambda y: torch.softmax(y.narrow(1, 3, 6), -1)),
    _product("rows_into_softmax", lambda y: torch.softmax(y[2:], -1)),
    _product("rows_are_result", lambda y: y[2:]),
    _product("columns_are_result", lambda y: y[:, 3:]),
    _product("transposed_is_result", lambda y: y.t()),
    _product("expanded", lambda y: y[:, None].expand(6, 3, 12) * 2),
    _product("expanded_into_bmm", lambda y: torch.bmm(y.expand(3, 6, 12), y.t().expand(3, 12, 6))),
    _product("cat_of_halves", lambda y: torch.cat([y[:, 6:], y[:, :6]], 1)),
    _product("roll", lambda y: torch.roll(y, 5, 1)),
    nn_case("mm/rows_of_weight", lambda: Parts(lambda w: w[4:].t()), randn(5, 8)),
    nn_case("mm/columns_of_weight", lambda: Parts(lambda w: w[:, 2:]), randn(5, 12)),
    nn_case("mm/first_rows_of_weight", lambda: Parts(lambda w: w[:8]), randn(5, 8)),
]  # fmt: skip

CATS = [
    op("cat/of_products", lambda a, b: torch.cat([a @ b, b @ a], 1), randn(6, 6), randn(6, 6)),
    op("cat/of_products_by_rows", lambda a, b: torch.cat([a @ b, b @ a], 0), randn(6, 6),
       randn(6, 6)),
    op("cat/product_and_input", lambda a, b: torch.cat([a @ b, a], 1), randn(6, 6), randn(6, 6)),
    op("cat/product_and_kernel", lambda a, b: torch.cat([a @ b, a.sin()], -1), randn(6, 6),
       randn(6, 6)),
    op("cat/of_reductions",
       lambda a, b: torch.cat([a.sum(1, keepdim=True), torch.softmax(b, 1)], 1), randn(6, 6),
       randn(6, 6)),
    op("cat/of_softmaxes", lambda a, b: torch.cat([torch.softmax(a, 1), torch.softmax(b, 1)], 1),
       randn(6, 6), randn(6, 6)),
    op("cat/of_softmaxes_by_rows",
       lambda a, b: torch.cat([torch.softmax(a, 1), torch.softmax(b, 1)], 0), randn(6, 6),
       randn(6, 6)),
    op("cat/ten_by_columns", lambda a, b: torch.cat([a * n + b for n in range(10)], 1), randn(6, 6),
       randn(6, 6)),
    op("cat/ten_by_rows", lambda a, b: torch.cat([a * n + b for n in range(10)], 0), randn(6, 6),
       randn(6, 6)),
    op("cat/of_convolutions",
       lambda a, b: torch.cat([torch.conv2d(a, b).sin(), torch.conv2d(a, b.cos())], 1),
       randn(2, 3, 6, 5), randn(4, 3, 3, 3)),
    op("cat/of_pools",
       lambda a, b: torch.cat([F.max_pool2d(a, 2), F.avg_pool2d(b, 2),
                               a.amax((2, 3), True).expand(2, 3, 3, 2)], 1),
       randn(2, 3, 6, 5), randn(2, 3, 6, 5)),
    op("cat/into_mm", lambda a, b: torch.cat([a @ b, b], 1) @ torch.cat([a, b], 0), randn(6, 6),
       randn(6, 6)),
    op("stack/of_products", lambda a, b: torch.stack([a @ b, b @ a], 1), randn(6, 6),
       randn(6, 6)),
]  # fmt: skip


def _of_all(kernels: Iterable[str], *, computed: bool) -> list[Case]:
    """Combine kernels and views. A plain run chooses from each second one of both."""
    return [
        replace(_view(kernel, cut, computed), plain_targets="*" if (row + at) % 2 == 0 else "")
        for row, kernel in enumerate(kernels)
        for at, cut in enumerate(CUTS)
    ]


CASES: list[Case] = on_metal(
    *_of_all(KERNELS, computed=True),
    *_of_all(_OF_INPUTS, computed=False),
    *PARTS,
    *CATS,
)  # fmt: skip

_EQUAL = "the layout makes all elements equal"
CASES = add_vacuous_reasons(
    CASES,
    {
        "_softmax/expanded_columns_of_result": _EQUAL,
        "bmm/expanded_rows_of_result": _EQUAL,
        "convolution/chunk_columns_of_result": CANCELS,
        "convolution/expanded_columns_of_result": _EQUAL,
        "mm/expanded_rows_of_input": _EQUAL,
        "mm/expanded_rows_of_result": _EQUAL,
        "scaled_dot_product_attention/expanded_columns_of_result": _EQUAL,
    },
)
