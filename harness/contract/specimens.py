"""Odd but legal programs, and twins of them that differ from eager once they are exported.

Each was judged wrongly once. A twin looks at :func:`torch.compiler.is_exporting`: eager does not
see the fault, the program that was exported has it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.model.case import Call, Case, Given, Inputs


class Expected(enum.Enum):
    """What a verdict on a specimen must say."""

    CONFORMS = enum.auto()
    DIFFERS = enum.auto()  # from what eager returns
    REFUSED = enum.auto()  # no two runs of eager agree
    UNTELLING = enum.auto()  # right, and so is any constant


class Kind(enum.StrEnum):
    """What a specimen is about. A backend must execute some of each kind, or declare all of it
    unsupported."""

    OUTPUTS = "outputs"
    STATE = "state"
    RANDOMNESS = "randomness"
    VACUOUS = "outputs without signal"
    INPUTS = "inputs"
    CONTROL_FLOW = "control flow"
    ARITHMETIC = "arithmetic"
    DYNAMIC_SIZES = "dynamic sizes"
    BEFORE_LOWERING = "before lowering"


@dataclass(frozen=True)
class Specimen:
    """A case, what a verdict on it must say, and what it is about."""

    case: Case
    expected: Expected
    kind: Kind


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


def specimen(
    kind: Kind,
    name: str,
    function: Callable[..., Any],
    inputs: Callable[[], Inputs],
    expected: Expected = Expected.CONFORMS,
    *,
    kwargs: Callable[[], dict[str, Any]] = dict,
    calls: Callable[[], Sequence[Given]] | None = None,
    draws: bool = False,
    **buffers: torch.Tensor,
) -> Specimen:
    """A program that calls a function with a module and its inputs.

    Args:
        kind: what it is about.
        name: of the case, behind ``specimen/``.
        function: takes a module with the buffers, then the inputs.
        inputs: makes those of the first call.
        expected: what a verdict must say.
        kwargs: makes the inputs by name of the first call.
        calls: makes further calls.
        draws: the function draws random numbers, and says so.
        buffers: state of the module, by name.
    """
    case = Case(
        f"specimen/{name}",
        lambda: (Calls(function, buffers), inputs(), kwargs()),
        calls=calls,
        draws=draws,
        untelling="a constant by intent" if expected is Expected.UNTELLING else "",
    )
    return Specimen(case, expected, kind)


SPECIMENS: list[Specimen] = []


def _specimen(*args: Any, **options: Any) -> None:
    SPECIMENS.append(specimen(*args, **options))


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
    _specimen(Kind.OUTPUTS, f"{name}_output", lambda _, x, v=right: (x * 2, v), _matrix)
    _specimen(
        Kind.OUTPUTS,
        f"{name}_output_wrong",
        lambda _, x, v=right, w=wrong: (x * 2, planted(v, w)),
        _matrix,
        Expected.DIFFERS,
    )
_specimen(Kind.OUTPUTS, "dict_output", lambda _, x: {"b": x * 2, "a": x + 1}, _matrix)
_specimen(
    Kind.OUTPUTS,
    "dict_output_in_another_order",
    lambda _, x: planted({"a": x + 1, "b": x * 2}, {"b": x * 2, "a": x + 1}),
    _matrix,
)
_specimen(
    Kind.OUTPUTS, "nested_output", lambda _, x: [(x * 2, [x + 1]), {"a": (x - 1, 7)}], _matrix
)
_specimen(
    Kind.OUTPUTS,
    "dict_output_with_other_keys",
    lambda _, x: {planted("a", "b"): x * 2},
    _matrix,
    Expected.DIFFERS,
)
_specimen(
    Kind.OUTPUTS,
    "list_for_a_tuple",
    lambda _, x: planted((x, x + 1), [x, x + 1]),
    _matrix,
    Expected.DIFFERS,
)
_specimen(
    Kind.OUTPUTS,
    "number_from_data",
    lambda _, x: (x * 2, x.sum().item()),
    lambda: (torch.randn(5),),
)
_specimen(Kind.OUTPUTS, "same_output_twice", lambda _, x: (y := x * 2, y), _matrix)
_specimen(Kind.OUTPUTS, "input_as_output", lambda _, x: (x, x * 2), _matrix)


# State, in buffers and in inputs.
def _remember(factor: Callable[[], float]) -> Callable[..., Any]:
    def function(module: Any, x: torch.Tensor) -> Any:
        result = module.memory + x
        module.memory.copy_(x * factor())
        return result

    return function


_ZEROS = torch.zeros(3, 4)
_specimen(Kind.STATE, "buffer", _remember(lambda: 2), _matrix, memory=_ZEROS)
_specimen(
    Kind.STATE,
    "buffer_wrong",
    _remember(lambda: planted(1, 9)),
    _matrix,
    Expected.DIFFERS,
    memory=_ZEROS,
)


def _accumulate_and_return(module: Any, x: torch.Tensor) -> Any:
    module.memory = module.memory + x
    return module.memory * 2


_specimen(
    Kind.STATE,
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


_specimen(
    Kind.STATE, "buffer_not_written", _count_only_in_eager, _matrix, Expected.DIFFERS, memory=_ZEROS
)


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


_specimen(Kind.STATE, "changed_input", _change_input(lambda: 1), _matrix)
_specimen(
    Kind.STATE,
    "changed_input_wrong",
    _change_input(lambda: planted(1, 2)),
    _matrix,
    Expected.DIFFERS,
)
_specimen(Kind.STATE, "input_not_changed", _leave_input, _matrix, Expected.DIFFERS)
_specimen(
    Kind.STATE,
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


_specimen(Kind.RANDOMNESS, "draws", _noise, _large, Expected.REFUSED)
_specimen(
    Kind.RANDOMNESS,
    "draws_for_a_constant",
    lambda _, x: x + planted(torch.rand(64, 64), 0.5),
    _large,
    Expected.REFUSED,
)
_specimen(Kind.RANDOMNESS, "python_state", _count, _matrix, Expected.REFUSED)
_specimen(Kind.RANDOMNESS, "declared_draws", _noise, _large, draws=True)
_specimen(
    Kind.RANDOMNESS,
    "declared_draws_wrong",
    lambda _, x: x + planted(1.0, 1.2) * torch.rand(64, 64),
    _large,
    Expected.DIFFERS,
    draws=True,
)

# No signal.
_specimen(Kind.VACUOUS, "zeros", lambda _, x: x * 0, _matrix, Expected.UNTELLING)
_specimen(Kind.VACUOUS, "vanishing", lambda _, x: x * 1e-30 * 1e-20, _matrix, Expected.UNTELLING)
_specimen(
    Kind.VACUOUS,
    "saturated",
    lambda _, x: torch.tanh(x.abs() * 100 + 50),
    _matrix,
    Expected.UNTELLING,
)

# Inputs.
_specimen(
    Kind.INPUTS,
    "dict_input_in_another_order",
    lambda _, d: d["a"] - 2 * d["b"],
    lambda: ({"a": torch.ones(2), "b": torch.zeros(2)},),
    calls=lambda: [({"b": torch.zeros(2), "a": torch.ones(2) * 3},)],
)
for name, factor in (("", 2.0), ("_wrong", 3.0)):
    _specimen(
        Kind.INPUTS,
        f"inputs_by_name_in_another_order{name}",
        lambda _, x, *, a, b, f=factor: x + a - planted(2.0, f) * b,
        lambda: (torch.randn(2),),
        Expected.DIFFERS if name else Expected.CONFORMS,
        kwargs=lambda: {"a": torch.ones(2), "b": torch.zeros(2)},
        calls=lambda: [Call((torch.randn(2),), {"b": torch.ones(2), "a": torch.ones(2) * 3})],
    )
_specimen(
    Kind.INPUTS,
    "inputs_that_are_no_tensors",
    lambda _, x, pair, *, flag, scale, nothing: x * scale + pair[0] - pair[1][0] + int(flag),
    lambda: (torch.randn(2), (3, [1.5])),
    kwargs=lambda: {"flag": True, "scale": 0.5, "nothing": None},
)
_specimen(
    Kind.INPUTS,
    "input_with_gradient",
    lambda _, x: x * 2,
    lambda: (torch.randn(3, 4, requires_grad=True),),
)
_specimen(
    Kind.INPUTS, "overlapping_input", lambda _, x: x * 2, lambda: (torch.randn(3, 1).expand(3, 4),)
)
_specimen(
    Kind.INPUTS,
    "channels_last_input",
    lambda _, x: torch.relu(x),
    lambda: (torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last),),
)
_specimen(
    Kind.INPUTS, "transposed_input", lambda _, x: torch.relu(x), lambda: (torch.randn(4, 3).T,)
)
_specimen(Kind.INPUTS, "complex_output", lambda _, x: torch.fft.rfft(x), _matrix)


# Control flow; the second of two finds what the first left behind.
def _branch(_: Any, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a * 2 + 1, lambda a: a - 3, (x,))


def _wrong_branch(_: Any, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a * planted(2, 3), lambda a: a - planted(3, 4), (x,))


def _mapped(_: Any, x: torch.Tensor) -> Any:
    from harness.vendors.torch import _higher_order_ops

    def row(values: Any, *_: Any) -> Any:
        return torch.sin(values)

    return _higher_order_ops.map(row, x)


def _scanned(_: Any, x: torch.Tensor) -> Any:
    from harness.vendors.torch import _higher_order_ops

    return _higher_order_ops.scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)


_specimen(Kind.CONTROL_FLOW, "cond", _branch, _matrix)
_specimen(Kind.CONTROL_FLOW, "cond_again", _branch, _matrix, calls=lambda: [(-torch.ones(3, 4),)])
_specimen(Kind.CONTROL_FLOW, "cond_wrong", _wrong_branch, _matrix, Expected.DIFFERS)
_specimen(Kind.CONTROL_FLOW, "map", _mapped, _matrix)
_specimen(Kind.CONTROL_FLOW, "scan", _scanned, _matrix)
