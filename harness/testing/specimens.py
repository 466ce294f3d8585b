"""Odd but legal programs, and twins of them that differ from eager once they are exported.

Each was judged wrongly once. A twin looks at :func:`torch.compiler.is_exporting`: eager does not
see the fault, the program that was exported has it.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.case import Call, Case, Given, Inputs


class Expected(enum.Enum):
    """What a verdict on a specimen must say."""

    CONFORMS = enum.auto()
    DIFFERS = enum.auto()  # from what eager returns
    REFUSED = enum.auto()  # no two runs of eager agree
    UNTELLING = enum.auto()  # right, and so is any constant


@dataclass(frozen=True)
class Specimen:
    """A case and what a verdict on it must say."""

    case: Case
    expected: Expected


class Calls(torch.nn.Module):
    """Calls a function with itself and its inputs; has buffers by name.

    Attributes:
        count: how often it ran, for functions that keep state where no program can.
    """

    def __init__(self, function: Callable[..., Any], buffers: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.count = 0
        for name, value in buffers.items():
            self.register_buffer(name, value.clone())

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The function's result."""
        return self.function(self, *inputs, **named)


SPECIMENS: list[Specimen] = []


def _specimen(
    name: str,
    function: Callable[..., Any],
    inputs: Callable[[], Inputs],
    expected: Expected = Expected.CONFORMS,
    *,
    kwargs: Callable[[], dict[str, Any]] = dict,
    calls: Callable[[], Sequence[Given]] | None = None,
    draws: bool = False,
    **buffers: torch.Tensor,
) -> None:
    case = Case(
        f"specimen/{name}",
        lambda: (Calls(function, buffers), inputs(), kwargs()),
        calls=calls,
        draws=draws,
        untelling="a constant by intent" if expected is Expected.UNTELLING else "",
    )
    SPECIMENS.append(Specimen(case, expected))


def planted(right: Any, wrong: Any) -> Any:
    """The first in eager, the second in an exported program."""
    return wrong if torch.compiler.is_exporting() else right


def _matrix() -> Inputs:
    return (torch.randn(3, 4),)


# Outputs that are no tensors, and how outputs are nested.
for name, right, wrong in (
    ("int", 3, 4),
    ("float", 3.5, 4.5),
    ("bool", True, False),
    ("none", None, 3),
    ("int_for_bool", True, 1),
    ("int_for_float", 2.0, 2),
):
    _specimen(f"{name}_output", lambda _, x, v=right: (x * 2, v), _matrix)
    _specimen(
        f"{name}_output_wrong",
        lambda _, x, v=right, w=wrong: (x * 2, planted(v, w)),
        _matrix,
        Expected.DIFFERS,
    )
_specimen("dict_output", lambda _, x: {"b": x * 2, "a": x + 1}, _matrix)
_specimen(
    "dict_output_in_another_order",
    lambda _, x: planted({"a": x + 1, "b": x * 2}, {"b": x * 2, "a": x + 1}),
    _matrix,
)
_specimen("nested_output", lambda _, x: [(x * 2, [x + 1]), {"a": (x - 1, 7)}], _matrix)
_specimen(
    "dict_output_with_other_keys",
    lambda _, x: {planted("a", "b"): x * 2},
    _matrix,
    Expected.DIFFERS,
)
_specimen(
    "list_for_a_tuple", lambda _, x: planted((x, x + 1), [x, x + 1]), _matrix, Expected.DIFFERS
)
_specimen("number_from_data", lambda _, x: (x * 2, x.sum().item()), lambda: (torch.randn(5),))
_specimen("same_output_twice", lambda _, x: (y := x * 2, y), _matrix)
_specimen("input_as_output", lambda _, x: (x, x * 2), _matrix)


# State, in buffers and in inputs.
def _remember(factor: Callable[[], float]) -> Callable[..., Any]:
    def function(module: Any, x: torch.Tensor) -> Any:
        result = module.memory + x
        module.memory.copy_(x * factor())
        return result

    return function


_ZEROS = torch.zeros(3, 4)
_specimen("buffer", _remember(lambda: 2), _matrix, memory=_ZEROS)
_specimen(
    "buffer_wrong", _remember(lambda: planted(1, 9)), _matrix, Expected.DIFFERS, memory=_ZEROS
)


def _accumulate_and_return(module: Any, x: torch.Tensor) -> Any:
    module.memory = module.memory + x
    return module.memory * 2


_specimen(
    "buffer_in_steps",
    _accumulate_and_return,
    _matrix,
    calls=lambda: [_matrix(), _matrix()],
    memory=_ZEROS,
)


def _count_only_in_eager(module: Any, x: torch.Tensor) -> Any:
    result = x + module.memory
    if not torch.compiler.is_exporting():
        module.memory.add_(1)
    return result


_specimen("buffer_not_written", _count_only_in_eager, _matrix, Expected.DIFFERS, memory=_ZEROS)


def _change_input(amount: Callable[[], float]) -> Callable[..., Any]:
    def function(_: Any, x: torch.Tensor) -> Any:
        result = x * 2
        x.add_(amount())
        return result

    return function


def _leave_input(_: Any, x: torch.Tensor) -> Any:
    result = x * 2
    if not torch.compiler.is_exporting():
        x.add_(1)
    return result


_specimen("changed_input", _change_input(lambda: 1), _matrix)
_specimen("changed_input_wrong", _change_input(lambda: planted(1, 2)), _matrix, Expected.DIFFERS)
_specimen("input_not_changed", _leave_input, _matrix, Expected.DIFFERS)
_specimen(
    "second_input_changed",
    lambda _, x, y: (x + y.mul_(2), y.sum()),
    lambda: (torch.randn(3), torch.randn(3)),
)


# Randomness.
def _count(module: Any, x: torch.Tensor) -> Any:
    module.count += 1
    return x + module.count


def _noise(_: Any, x: torch.Tensor) -> Any:
    return x + torch.rand(64, 64)


def _large() -> Inputs:
    return (torch.zeros(64, 64),)


_specimen("draws", _noise, _large, Expected.REFUSED)
_specimen(
    "draws_for_a_constant",
    lambda _, x: x + planted(torch.rand(64, 64), 0.5),
    _large,
    Expected.REFUSED,
)
_specimen("python_state", _count, _matrix, Expected.REFUSED)
_specimen("declared_draws", _noise, _large, draws=True)
_specimen(
    "declared_draws_wrong",
    lambda _, x: x + planted(1.0, 1.2) * torch.rand(64, 64),
    _large,
    Expected.DIFFERS,
    draws=True,
)

# No signal.
_specimen("zeros", lambda _, x: x * 0, _matrix, Expected.UNTELLING)
_specimen("vanishing", lambda _, x: x * 1e-30 * 1e-20, _matrix, Expected.UNTELLING)
_specimen("saturated", lambda _, x: torch.tanh(x.abs() * 100 + 50), _matrix, Expected.UNTELLING)

# Inputs.
_specimen(
    "dict_input_in_another_order",
    lambda _, d: d["a"] - 2 * d["b"],
    lambda: ({"a": torch.ones(2), "b": torch.zeros(2)},),
    calls=lambda: [({"b": torch.zeros(2), "a": torch.ones(2) * 3},)],
)
for name, factor in (("", 2.0), ("_wrong", 3.0)):
    _specimen(
        f"inputs_by_name_in_another_order{name}",
        lambda _, x, *, a, b, f=factor: x + a - planted(2.0, f) * b,
        lambda: (torch.randn(2),),
        Expected.DIFFERS if name else Expected.CONFORMS,
        kwargs=lambda: {"a": torch.ones(2), "b": torch.zeros(2)},
        calls=lambda: [Call((torch.randn(2),), {"b": torch.ones(2), "a": torch.ones(2) * 3})],
    )
_specimen(
    "inputs_that_are_no_tensors",
    lambda _, x, pair, *, flag, scale, nothing: x * scale + pair[0] - pair[1][0] + int(flag),
    lambda: (torch.randn(2), (3, [1.5])),
    kwargs=lambda: {"flag": True, "scale": 0.5, "nothing": None},
)
_specimen(
    "input_with_gradient", lambda _, x: x * 2, lambda: (torch.randn(3, 4, requires_grad=True),)
)
_specimen("overlapping_input", lambda _, x: x * 2, lambda: (torch.randn(3, 1).expand(3, 4),))
_specimen(
    "channels_last_input",
    lambda _, x: torch.relu(x),
    lambda: (torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last),),
)
_specimen("transposed_input", lambda _, x: torch.relu(x), lambda: (torch.randn(4, 3).T,))
_specimen("complex_output", lambda _, x: torch.fft.rfft(x), _matrix)


# Control flow; the second of two finds what the first left behind.
def _branch(_: Any, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a * 2 + 1, lambda a: a - 3, (x,))


def _wrong_branch(_: Any, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a * planted(2, 3), lambda a: a - planted(3, 4), (x,))


def _mapped(_: Any, x: torch.Tensor) -> Any:
    from harness.private.torch import _higher_order_ops

    def row(values: Any, *_: Any) -> Any:
        return torch.sin(values)

    return _higher_order_ops.map(row, x)


def _scanned(_: Any, x: torch.Tensor) -> Any:
    from harness.private.torch import _higher_order_ops

    return _higher_order_ops.scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)


_specimen("cond", _branch, _matrix)
_specimen("cond_again", _branch, _matrix, calls=lambda: [(-torch.ones(3, 4),)])
_specimen("cond_wrong", _wrong_branch, _matrix, Expected.DIFFERS)
_specimen("map", _mapped, _matrix)
_specimen("scan", _scanned, _matrix)


# Arithmetic at its edges.
def _applied(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    return lambda _, x: function(x)


def _vector(values: list[float]) -> Inputs:
    return (torch.tensor(values),)


def _pair() -> Inputs:
    return torch.randn(8, 16), torch.randn(16, 8)


_specimen(
    "cancelling_addmm",
    lambda _, x, y: torch.addmm(x.abs() @ y.abs(), x.abs(), y.abs(), alpha=-1.0),
    _pair,
)
_specimen(
    "cancelling_addmm_wrong",
    lambda _, x, y: torch.addmm(x.abs() @ y.abs(), x.abs(), y.abs(), alpha=planted(-1.0, -1.001)),
    _pair,
    Expected.DIFFERS,
)
for name, function, ends in (
    # The ends alone: elsewhere Arm's polynomial is off (suites/ops/limitations/tosa_fp.py).
    ("asin", torch.asin, [-1.0, 1.0]),
    ("acos", torch.acos, [-1.0, 1.0]),
    ("acosh", torch.acosh, [1.0, 1.5, 2.0, 30.0]),
    ("atanh", torch.atanh, [-1.0, 1.0, 0.5, -0.25]),
    ("log", torch.log, [0.0, 1.0, 0.5, 3.0]),
    ("sqrt", torch.sqrt, [0.0, 1.0, 0.5, 3.0]),
    ("silu", torch.nn.functional.silu, [-89.0, -100.0, 0.5, 3.0]),
    ("softplus", torch.nn.functional.softplus, [-104.0, 89.0, 0.5, 19.9]),
    ("logsigmoid", torch.nn.functional.logsigmoid, [-89.0, 104.0, 0.5, 3.0]),
    ("gelu", torch.nn.functional.gelu, [-14.0, -5.0, 0.5, 3.0]),
):
    _specimen(
        f"{name}_at_its_ends",
        _applied(function),
        functools.partial(_vector, ends),
    )
_specimen(
    "rfft2", lambda _, x: torch.view_as_real(torch.fft.rfft2(x)), lambda: (torch.randn(8, 8),)
)
_specimen("remainder", lambda _, x: torch.remainder(x, 0.7), lambda: (torch.randn(64) * 1000,))
_specimen("floor_of_tenths", lambda _, x: torch.floor(x * 10), lambda: (torch.arange(40) / 10,))
_specimen(
    "round_of_twentieths", lambda _, x: torch.round(x / 0.05), lambda: (torch.arange(80) / 40,)
)
_specimen(
    "floor_wrong",
    lambda _, x: torch.floor(x * 10 + planted(0.0, 1.0)),
    lambda: (torch.arange(40) / 10,),
    Expected.DIFFERS,
)
_specimen(
    "topk_of_ties",
    lambda _, x: tuple(torch.topk(x, 3)),
    lambda: (torch.tensor([[1.0, 5.0, 5.0, 5.0, 5.0, 0.0], [2.0, 2.0, 9.0, 1.0, 2.0, 2.0]]),),
)
_specimen(
    "argmax_of_ties",
    lambda _, x: (x.argmax(-1), x * 2),
    lambda: (torch.tensor([[1.0, 5.0, 5.0, 0.0], [2.0, 1.0, 2.0, 2.0]]),),
)
_specimen(
    "argmax_wrong",
    lambda _, x: (x * planted(1.0, -1.0)).argmax(-1),
    lambda: (torch.tensor([[1.0, 5.0, 3.0, 0.0], [2.0, 1.0, 2.5, 2.0]]),),
    Expected.DIFFERS,
)
_specimen(
    "interpolate",
    lambda _, x: torch.nn.functional.interpolate(
        x, scale_factor=3, mode="bilinear", align_corners=True
    ),
    lambda: (torch.randn(1, 2, 5, 5),),
)
_specimen(
    "duplicate_indices",
    lambda _, x, values: x.index_put((torch.tensor([1, 1, 2]),), values),
    lambda: (torch.randn(4, 3), torch.randn(3, 3)),
)
_specimen("sum_of_equal_terms", lambda _, x: x.sum(), lambda: (torch.full((2**18,), 0.1),))
_specimen("left_over_sort", lambda _, x: torch.sort(x * 2)[0] + 1, _matrix)
