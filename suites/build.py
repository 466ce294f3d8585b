"""Write an operator case in one line: input specs, and ``op`` and ``nn_case`` around them.

::

    op("add/broadcast", torch.add, randn(2, 3, 4), randn(4))
    nn_case("linear/bias", lambda: torch.nn.Linear(32, 64), randn(4, 32))

Specs are frozen and draw nothing until ``Case.make``, which seeds torch's global generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness import Case

Shape = tuple[int, ...]
Draw = Callable[[Shape], torch.Tensor]
View = Callable[[Draw, Shape], torch.Tensor]

COARSE = "an integer target may lose more steps on the way than the values differ by"
"""Why a case passes vacuously on integer targets."""
CANCELS = "its terms cancel, and bfloat16 may err by more than what is left of them"
"""Why a case passes vacuously in bfloat16."""

FLOATS_AND_TOSA = "portable:*|xnnpack:fp32|tosa:fp|tosa:int|mlx:fp32|metal:fp32"
"""Targets of cases that others refuse for a reason of their own."""

DTYPE_TAGS = {
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
}


@dataclass(frozen=True)
class Input:
    """Specification of one input tensor; :meth:`make` draws it.

    Attributes:
        shape: its shape, independent of its memory layout.
        values: draws contiguous values of a shape from torch's global generator.
        dtype: dtype to which the values are converted.
        view: lays the values out in memory; None for contiguous.
        layout: tag that the layout gives to the case; empty for none.
        extremes: the extreme values, where they may be infinite or NaN, or overflow in the dtype.
    """

    shape: Shape
    values: Draw
    dtype: torch.dtype = torch.float32
    view: View | None = None
    layout: str = ""
    extremes: Sequence[float] = ()

    @property
    def finite(self) -> bool:
        """Whether all values are finite; a quantizer cannot be calibrated with others."""
        drawn = torch.tensor(self.extremes, dtype=torch.float32)  # then converted to the dtype
        return bool(drawn.to(self.dtype).isfinite().all())

    def make(self) -> torch.Tensor:
        """Draw the tensor."""

        def draw(shape: Shape) -> torch.Tensor:
            return self.values(shape).to(self.dtype)

        return draw(self.shape) if self.view is None else self.view(draw, self.shape)

    def sized(self, *shape: int) -> Input:
        """The same kind of values in another shape."""
        return replace(self, shape=shape)

    def channels_last(self) -> Input:
        """The same shape with channels innermost in memory (rank 4 or 5)."""
        order = torch.channels_last if len(self.shape) == 4 else torch.channels_last_3d
        return replace(
            self,
            view=lambda draw, shape: draw(shape).contiguous(memory_format=order),
            layout="channels_last",
        )

    def transposed(self, first: int = -2, second: int = -1) -> Input:
        """The same shape, as a transposed view of contiguous memory."""

        def view(draw: Draw, shape: Shape) -> torch.Tensor:
            swapped = list(shape)
            swapped[first], swapped[second] = swapped[second], swapped[first]
            return draw(tuple(swapped)).transpose(first, second)

        return replace(self, view=view, layout="noncontiguous")

    def sliced(self, dim: int = -1) -> Input:
        """The same shape, as every second element along a dimension of a larger tensor."""

        def view(draw: Draw, shape: Shape) -> torch.Tensor:
            larger = list(shape)
            larger[dim] *= 2
            index: list[Any] = [slice(None)] * len(shape)
            index[dim] = slice(1, None, 2)
            return draw(tuple(larger))[tuple(index)]

        return replace(self, view=view, layout="noncontiguous")


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> Input:
    """Standard normal values."""
    return Input(shape, torch.randn, dtype)


def uniform(low: float, high: float, *shape: int, dtype: torch.dtype = torch.float32) -> Input:
    """Values in [low, high)."""
    return Input(
        shape, lambda size: torch.rand(size) * (high - low) + low, dtype, extremes=(low, high)
    )


def positive(*shape: int, dtype: torch.dtype = torch.float32) -> Input:
    """Values from 0.1 upwards: safe to divide by and to take logarithms and roots of."""
    return Input(shape, lambda size: torch.randn(size).abs() + 0.1, dtype)


def nonzero(*shape: int, dtype: torch.dtype = torch.float32) -> Input:
    """Values of both signs, at least 0.5 away from zero."""

    def draw(size: Shape) -> torch.Tensor:
        value = torch.randn(size)
        return value + torch.where(value < 0, -0.5, 0.5)

    return Input(shape, draw, dtype)


def ints(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Input:
    """Whole numbers in [low, high); a floating dtype gives exact whole floats."""
    return Input(
        shape, lambda size: torch.randint(low, high, size), dtype, extremes=(low, high - 1)
    )


def bools(*shape: int) -> Input:
    """Booleans, about as many True as False."""
    return Input(shape, lambda size: torch.rand(size) < 0.5, torch.bool)


def distinct(
    *shape: int, step: float = 0.5, offset: float = 0.2, dtype: torch.dtype = torch.float32
) -> Input:
    """A random permutation of values ``step`` apart around ``offset``: no two are close.

    With the default step and offset no value is near a whole number or a half either.
    """

    def draw(size: Shape) -> torch.Tensor:
        count = math.prod(size)
        return ((torch.randperm(count) - count // 2) * step + offset).reshape(size)

    return Input(shape, draw, dtype)


def values(items: Sequence[float], *shape: int, dtype: torch.dtype = torch.float32) -> Input:
    """The given values in random order, repeated to fill the shape; all occur if they fit."""

    def draw(size: Shape) -> torch.Tensor:
        count = math.prod(size)
        repeated = torch.tensor(items).repeat(-(-count // len(items)))[:count]
        return repeated[torch.randperm(count)].reshape(size)

    return Input(shape, draw, dtype, extremes=items)


def full(value: float, *shape: int, dtype: torch.dtype = torch.float32) -> Input:
    """One value everywhere."""
    return Input(shape, lambda size: torch.full(size, value), dtype, extremes=(value,))


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Input:
    """Zeros."""
    return full(0.0, *shape, dtype=dtype)


class Apply(torch.nn.Module):
    """Base of modules that call a function on their inputs."""

    def __init__(self, function: Callable[..., Any], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.function = function
        self.kwargs = kwargs


# One class per number of inputs: a variadic forward loses its structure when a quantized graph
# is exported again, and dynamic shapes then no longer fit.
class Apply1(Apply):
    """Calls a function on one input."""

    def forward(self, a: torch.Tensor) -> Any:
        """The function's result."""
        return self.function(a, **self.kwargs)


class Apply2(Apply):
    """Calls a function on two inputs."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        """The function's result."""
        return self.function(a, b, **self.kwargs)


class Apply3(Apply):
    """Calls a function on three inputs."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
        """The function's result."""
        return self.function(a, b, c, **self.kwargs)


class Apply4(Apply):
    """Calls a function on four inputs."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> Any:
        """The function's result."""
        return self.function(a, b, c, d, **self.kwargs)


_APPLY: dict[int, type[Apply]] = {1: Apply1, 2: Apply2, 3: Apply3, 4: Apply4}


@dataclass(frozen=True)
class ModuleAndInputs:
    """Makes the module and the inputs of a case.

    Attributes:
        module: makes the module; its weights are drawn before the inputs.
        inputs: the tensors.
    """

    module: Callable[[], torch.nn.Module]
    inputs: Sequence[Input]

    def __call__(self) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        """Make the module, then draw the inputs."""
        return self.module(), _make(self.inputs)


def op(
    name: str,
    function: Callable[..., Any],
    *inputs: Input,
    dynamic_shapes: Sequence[Any] | None = None,
    calls: Sequence[Sequence[Input]] = (),
    tags: Iterable[str] = (),
    vacuous: str = "",
    **kwargs: Any,
) -> Case:
    """Make a case that calls a function.

    Args:
        name: ``operator/variant``, the operator by its ATen name.
        function: takes the tensors positionally.
        inputs: one to four tensors.
        dynamic_shapes: per input, as ``torch.export.export`` takes it.
        calls: inputs of further calls.
        tags: further tags; the tags that follow from the inputs are added.
        vacuous: vacuous reason: why the outputs carry no signal; empty when they carry one.
        kwargs: the function's other arguments.
    """
    apply = _APPLY[len(inputs)]
    shapes = None if dynamic_shapes is None else tuple(dynamic_shapes)
    case = _case(name, lambda: apply(function, kwargs), inputs, shapes, calls, tags, None)
    return replace(case, vacuous=vacuous)


def nn_case(
    name: str,
    module: Callable[[], torch.nn.Module],
    *inputs: Input,
    dynamic_shapes: Sequence[Any] | None = None,
    calls: Sequence[Sequence[Input]] = (),
    tags: Iterable[str] = (),
    vacuous: str = "",
) -> Case:
    """Make a case of a module with weights.

    Args:
        name: ``operator/variant``, the operator by its ATen name.
        module: makes the module; its weights are drawn here, before the inputs.
        inputs: the tensors.
        dynamic_shapes: per input, as ``torch.export.export`` takes it.
        calls: inputs of further calls.
        tags: further tags; the tags that follow from the inputs are added.
        vacuous: vacuous reason: why the outputs carry no signal; empty when they carry one.
    """
    shapes = None if dynamic_shapes is None else tuple(dynamic_shapes)
    case = _case(name, module, inputs, shapes, calls, tags, torch.float32)
    return replace(case, vacuous=vacuous)


def add_vacuous_reasons(cases: Sequence[Case], reasons: dict[str, str]) -> list[Case]:
    """Give some cases a vacuous reason: why their outputs carry no signal.

    Args:
        cases: all cases.
        reasons: vacuous reasons by case name.

    Raises:
        KeyError: a name that no case has.
    """
    for name in reasons.keys() - {case.name for case in cases}:
        raise KeyError(name)
    return [replace(case, vacuous=reasons.get(case.name, case.vacuous)) for case in cases]


def _case(
    name: str,
    module: Callable[[], torch.nn.Module],
    inputs: Sequence[Input],
    dynamic_shapes: Any,
    calls: Sequence[Sequence[Input]],
    tags: Iterable[str],
    weights: torch.dtype | None,
) -> Case:
    return Case(
        name,
        ModuleAndInputs(module, inputs),
        dynamic_shapes=dynamic_shapes,
        calls=(lambda: [_make(call) for call in calls]) if calls else None,
        tags=_tags([inputs, *calls], weights, dynamic_shapes is not None, tags),
    )


def _make(inputs: Sequence[Input]) -> tuple[torch.Tensor, ...]:
    return tuple(spec.make() for spec in inputs)


def _tags(
    calls: Sequence[Sequence[Input]],
    weights: torch.dtype | None,
    dynamic: bool,
    given: Iterable[str],
) -> frozenset[str]:
    tags = {"ops", *given}
    if not tags & set(DTYPE_TAGS.values()):
        tags.add(DTYPE_TAGS[_main_dtype(calls[0], weights)])
    inputs = [spec for call in calls for spec in call]
    tags.update(spec.layout for spec in inputs if spec.layout)
    if not all(spec.finite for spec in inputs):
        tags.add("nonfinite")
    if dynamic:
        tags.add("dynamic")
    if any(0 in spec.shape for spec in inputs):
        tags.add("empty")
    return frozenset(tags)


def _main_dtype(inputs: Sequence[Input], weights: torch.dtype | None) -> torch.dtype:
    """The dtype of the computation: a floating input's, else the weights', else the first's."""
    floating = [spec.dtype for spec in inputs if spec.dtype.is_floating_point]
    candidates = [*floating, weights, *(spec.dtype for spec in inputs), torch.float32]
    return next(dtype for dtype in candidates if dtype is not None)
