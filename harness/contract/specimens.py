"""Unusual but legal programs, and variants that differ from eager after export.

Test harnesses have judged each of them wrongly. A variant uses
:func:`torch.compiler.is_exporting`: the exported program has the fault, eager does not.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.model.case import Call, CallInputs, Case, Inputs


class Expected(enum.Enum):
    """The correct verdict on a specimen."""

    CONFORMS = enum.auto()
    DIFFERS = enum.auto()  # the program differs from eager
    REFUSED = enum.auto()  # no two runs of eager agree
    VACUOUS = enum.auto()  # it passes, and any constant output would pass


class SpecimenKind(enum.StrEnum):
    """The subject of a specimen. A backend must execute some of each kind, or declare all of that
    kind unsupported.
    """

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
    """A case, the correct verdict on it, and its subject."""

    case: Case
    expected: Expected
    kind: SpecimenKind


class FunctionModule(torch.nn.Module):
    """Calls a function with itself and its inputs; has buffers by name.

    Attributes:
        count: number of calls, for functions with state in Python.
    """

    def __init__(self, function: Callable[..., Any], buffers: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.count = 0
        for name, value in buffers.items():
            self.register_buffer(name, value.clone())

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Call the function."""
        return self.function(self, *inputs, **named)


def make_specimen(
    kind: SpecimenKind,
    name: str,
    function: Callable[..., Any],
    inputs: Callable[[], Inputs],
    expected: Expected = Expected.CONFORMS,
    *,
    kwargs: Callable[[], dict[str, Any]] = dict,
    calls: Callable[[], Sequence[CallInputs]] | None = None,
    random_outputs: bool = False,
    **buffers: torch.Tensor,
) -> Specimen:
    """Make a program that calls a function with a module and its inputs.

    Args:
        kind: its subject.
        name: name of the case after ``specimen/``.
        function: takes a module with the buffers, then the inputs.
        inputs: makes the inputs of the first call.
        expected: the correct verdict.
        kwargs: makes the inputs by name of the first call.
        calls: makes further calls.
        random_outputs: whether the case declares that the function draws random numbers.
        buffers: state of the module, by name.
    """
    case = Case(
        f"specimen/{name}",
        lambda: (FunctionModule(function, buffers), inputs(), kwargs()),
        calls=calls,
        random_outputs=random_outputs,
        vacuous="a constant by intent" if expected is Expected.VACUOUS else "",
    )
    return Specimen(case, expected, kind)


SPECIMENS: list[Specimen] = []


def _add_specimen(*args: Any, **options: Any) -> None:
    SPECIMENS.append(make_specimen(*args, **options))


def plant_fault(right: Any, wrong: Any) -> Any:
    """Return ``right`` in eager and ``wrong`` in an exported program."""
    return wrong if torch.compiler.is_exporting() else right


def _matrix() -> Inputs:
    return (torch.randn(3, 4),)


# Outputs that are not tensors, and nested outputs.
for name, right, wrong in (
    ("int", 3, 4),
    ("float", 3.5, 4.5),
    ("bool", True, False),
    ("none", None, 3),
    ("int_for_bool", True, 1),
    ("int_for_float", 2.0, 2),
):
    _add_specimen(SpecimenKind.OUTPUTS, f"{name}_output", lambda _, x, v=right: (x * 2, v), _matrix)
    _add_specimen(
        SpecimenKind.OUTPUTS,
        f"{name}_output_wrong",
        lambda _, x, v=right, w=wrong: (x * 2, plant_fault(v, w)),
        _matrix,
        Expected.DIFFERS,
    )
_add_specimen(SpecimenKind.OUTPUTS, "dict_output", lambda _, x: {"b": x * 2, "a": x + 1}, _matrix)
_add_specimen(
    SpecimenKind.OUTPUTS,
    "dict_output_in_another_order",
    lambda _, x: plant_fault({"a": x + 1, "b": x * 2}, {"b": x * 2, "a": x + 1}),
    _matrix,
)
_add_specimen(
    SpecimenKind.OUTPUTS,
    "nested_output",
    lambda _, x: [(x * 2, [x + 1]), {"a": (x - 1, 7)}],
    _matrix,
)
_add_specimen(
    SpecimenKind.OUTPUTS,
    "dict_output_with_other_keys",
    lambda _, x: {plant_fault("a", "b"): x * 2},
    _matrix,
    Expected.DIFFERS,
)
_add_specimen(
    SpecimenKind.OUTPUTS,
    "list_for_a_tuple",
    lambda _, x: plant_fault((x, x + 1), [x, x + 1]),
    _matrix,
    Expected.DIFFERS,
)
_add_specimen(
    SpecimenKind.OUTPUTS,
    "number_from_data",
    lambda _, x: (x * 2, x.sum().item()),
    lambda: (torch.randn(5),),
)
_add_specimen(SpecimenKind.OUTPUTS, "same_output_twice", lambda _, x: (y := x * 2, y), _matrix)
_add_specimen(SpecimenKind.OUTPUTS, "input_as_output", lambda _, x: (x, x * 2), _matrix)


# State, in buffers and in inputs.
def _remember(factor: Callable[[], float]) -> Callable[..., Any]:
    def function(module: Any, x: torch.Tensor) -> Any:
        result = module.memory + x
        module.memory.copy_(x * factor())
        return result

    return function


_ZEROS = torch.zeros(3, 4)
_add_specimen(SpecimenKind.STATE, "buffer", _remember(lambda: 2), _matrix, memory=_ZEROS)
_add_specimen(
    SpecimenKind.STATE,
    "buffer_wrong",
    _remember(lambda: plant_fault(1, 9)),
    _matrix,
    Expected.DIFFERS,
    memory=_ZEROS,
)


def _accumulate_and_return(module: Any, x: torch.Tensor) -> Any:
    module.memory = module.memory + x
    return module.memory * 2


_add_specimen(
    SpecimenKind.STATE,
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


_add_specimen(
    SpecimenKind.STATE,
    "buffer_not_written",
    _count_only_in_eager,
    _matrix,
    Expected.DIFFERS,
    memory=_ZEROS,
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


_add_specimen(SpecimenKind.STATE, "changed_input", _change_input(lambda: 1), _matrix)
_add_specimen(
    SpecimenKind.STATE,
    "changed_input_wrong",
    _change_input(lambda: plant_fault(1, 2)),
    _matrix,
    Expected.DIFFERS,
)
_add_specimen(SpecimenKind.STATE, "input_not_changed", _leave_input, _matrix, Expected.DIFFERS)
_add_specimen(
    SpecimenKind.STATE,
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


_add_specimen(SpecimenKind.RANDOMNESS, "draws", _noise, _large, Expected.REFUSED)
_add_specimen(
    SpecimenKind.RANDOMNESS,
    "draws_for_a_constant",
    lambda _, x: x + plant_fault(torch.rand(64, 64), 0.5),
    _large,
    Expected.REFUSED,
)
_add_specimen(SpecimenKind.RANDOMNESS, "python_state", _count, _matrix, Expected.REFUSED)
_add_specimen(SpecimenKind.RANDOMNESS, "declared_draws", _noise, _large, random_outputs=True)
_add_specimen(
    SpecimenKind.RANDOMNESS,
    "declared_draws_wrong",
    lambda _, x: x + plant_fault(1.0, 1.2) * torch.rand(64, 64),
    _large,
    Expected.DIFFERS,
    random_outputs=True,
)

# No signal.
_add_specimen(SpecimenKind.VACUOUS, "zeros", lambda _, x: x * 0, _matrix, Expected.VACUOUS)
_add_specimen(
    SpecimenKind.VACUOUS, "vanishing", lambda _, x: x * 1e-30 * 1e-20, _matrix, Expected.VACUOUS
)
_add_specimen(
    SpecimenKind.VACUOUS,
    "saturated",
    lambda _, x: torch.tanh(x.abs() * 100 + 50),
    _matrix,
    Expected.VACUOUS,
)

# Inputs.
_add_specimen(
    SpecimenKind.INPUTS,
    "dict_input_in_another_order",
    lambda _, d: d["a"] - 2 * d["b"],
    lambda: ({"a": torch.ones(2), "b": torch.zeros(2)},),
    calls=lambda: [({"b": torch.zeros(2), "a": torch.ones(2) * 3},)],
)
for name, factor in (("", 2.0), ("_wrong", 3.0)):
    _add_specimen(
        SpecimenKind.INPUTS,
        f"inputs_by_name_in_another_order{name}",
        lambda _, x, *, a, b, f=factor: x + a - plant_fault(2.0, f) * b,
        lambda: (torch.randn(2),),
        Expected.DIFFERS if name else Expected.CONFORMS,
        kwargs=lambda: {"a": torch.ones(2), "b": torch.zeros(2)},
        calls=lambda: [Call((torch.randn(2),), {"b": torch.ones(2), "a": torch.ones(2) * 3})],
    )
_add_specimen(
    SpecimenKind.INPUTS,
    "inputs_that_are_no_tensors",
    lambda _, x, pair, *, flag, scale, nothing: x * scale + pair[0] - pair[1][0] + int(flag),
    lambda: (torch.randn(2), (3, [1.5])),
    kwargs=lambda: {"flag": True, "scale": 0.5, "nothing": None},
)
_add_specimen(
    SpecimenKind.INPUTS,
    "input_with_gradient",
    lambda _, x: x * 2,
    lambda: (torch.randn(3, 4, requires_grad=True),),
)
_add_specimen(
    SpecimenKind.INPUTS,
    "overlapping_input",
    lambda _, x: x * 2,
    lambda: (torch.randn(3, 1).expand(3, 4),),
)
_add_specimen(
    SpecimenKind.INPUTS,
    "channels_last_input",
    lambda _, x: torch.relu(x),
    lambda: (torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last),),
)
_add_specimen(
    SpecimenKind.INPUTS,
    "transposed_input",
    lambda _, x: torch.relu(x),
    lambda: (torch.randn(4, 3).T,),
)
_add_specimen(SpecimenKind.INPUTS, "complex_output", lambda _, x: torch.fft.rfft(x), _matrix)


# Control flow; "cond_again" makes a second call, which takes the other branch.
def _branch(_: Any, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a * 2 + 1, lambda a: a - 3, (x,))


def _wrong_branch(_: Any, x: torch.Tensor) -> Any:
    return torch.cond(
        x.sum() > 0, lambda a: a * plant_fault(2, 3), lambda a: a - plant_fault(3, 4), (x,)
    )


def _mapped(_: Any, x: torch.Tensor) -> Any:
    from harness.vendors.torch import _higher_order_ops

    def row(values: Any, *_: Any) -> Any:
        return torch.sin(values)

    return _higher_order_ops.map(row, x)


def _scanned(_: Any, x: torch.Tensor) -> Any:
    from harness.vendors.torch import _higher_order_ops

    return _higher_order_ops.scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)


_add_specimen(SpecimenKind.CONTROL_FLOW, "cond", _branch, _matrix)
_add_specimen(
    SpecimenKind.CONTROL_FLOW, "cond_again", _branch, _matrix, calls=lambda: [(-torch.ones(3, 4),)]
)
_add_specimen(SpecimenKind.CONTROL_FLOW, "cond_wrong", _wrong_branch, _matrix, Expected.DIFFERS)
_add_specimen(SpecimenKind.CONTROL_FLOW, "map", _mapped, _matrix)
_add_specimen(SpecimenKind.CONTROL_FLOW, "scan", _scanned, _matrix)
