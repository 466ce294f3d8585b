"""Build MIL operations on constants with coremltools, and compare kernels with them."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy
import pytest
import torch

from backends.coreml.kernels import call_kernel
from backends.coreml.kernels.base import DTYPES


class Declared(NamedTuple):
    """A result that coremltools declares; ``value`` is None without value inference."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    value: numpy.ndarray | None


@functools.cache
def load_mil() -> SimpleNamespace:
    """Import coremltools without its warnings, or skip the test."""
    logging.getLogger("coremltools").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coremltools = pytest.importorskip("coremltools")
        from coremltools.converters.mil.mil import Builder, Function, Operation, types
        from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry
    return SimpleNamespace(
        builder=Builder,
        function=Function,
        operation=Operation,
        registry=SSAOpRegistry,
        target=coremltools.target,
        types=types,
    )


def build(name: str, opset: str = "iOS15", **inputs: Any) -> Any:
    """Build an operation in an empty function and return its result variables."""
    mil = load_mil()
    with (
        warnings.catch_warnings(),
        numpy.errstate(all="ignore"),
        mil.function({}, opset_version=getattr(mil.target, opset)),
    ):
        warnings.simplefilter("ignore")
        return getattr(mil.builder, name)(**inputs)


def infer(name: str, opset: str = "iOS15", **inputs: Any) -> list[Declared]:
    """Return what coremltools infers for an operation on constants."""
    variables = build(name, opset, **copy_inputs(inputs))
    if not isinstance(variables, tuple | list):
        variables = [variables]
    text = load_mil().types.builtin_to_string
    return [
        Declared(
            DTYPES[text(variable.dtype)],
            tuple(int(size) for size in variable.shape),
            None if variable.val is None else numpy.array(variable.val),
        )
        for variable in variables
    ]


def copy_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """Copy arrays: some value inference changes its input."""
    return {k: v.copy() if isinstance(v, numpy.ndarray) else v for k, v in inputs.items()}


def to_argument(value: Any) -> Any:
    """Convert an input of the builder to what the executor passes."""
    if isinstance(value, numpy.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, numpy.generic):
        return torch.from_numpy(numpy.array(value))
    if isinstance(value, tuple):  # a tuple of MIL
        return [to_argument(item) for item in value]
    if isinstance(value, list):
        array = numpy.array(value)
        return torch.from_numpy(array.astype(numpy.int32) if array.dtype == numpy.int64 else array)
    return value


def compute(name: str, **inputs: Any) -> list[torch.Tensor]:
    """Call a kernel with inputs of the builder, and require that it does not change them."""
    arguments = {key: to_argument(value) for key, value in inputs.items()}
    kept = {k: v.clone() for k, v in arguments.items() if isinstance(v, torch.Tensor)}
    results = call_kernel(name, arguments)
    for key, value in kept.items():
        assert torch.equal(value.nan_to_num(), arguments[key].nan_to_num()), f"{name} changed {key}"
    return results if isinstance(results, list) else [results]


def compare(
    name: str,
    opset: str = "iOS15",
    *,
    ulps: float = 4,
    magnitude: float = 0.0,
    valued: bool = True,
    **inputs: Any,
) -> list[torch.Tensor]:
    """Compare a kernel with the types, shapes and values that coremltools infers.

    Args:
        name: the operation.
        opset: version of the operation.
        ulps: allowed error in units of the last place of the larger number.
        magnitude: size of intermediate results; smaller numbers have the error of this one.
        valued: whether the operation has value inference.
        **inputs: inputs of the operation.

    Returns:
        The results of the kernel.
    """
    declared, results = infer(name, opset, **inputs), compute(name, **inputs)
    assert len(results) == len(declared)
    for result, expected in zip(results, declared, strict=True):
        assert result.dtype == expected.dtype
        assert tuple(result.shape) == expected.shape
        assert (expected.value is not None) == valued
        if expected.value is not None:
            assert_close(result, torch.from_numpy(expected.value), ulps, magnitude)
    return results


def assert_close(
    result: torch.Tensor, expected: torch.Tensor, ulps: float = 4, magnitude: float = 0.0
) -> None:
    """Require equal integers, and floats within some units of the last place."""
    assert result.shape == expected.shape
    if not result.is_floating_point():
        assert torch.equal(result.to(torch.int64), expected.to(torch.int64))
        return
    got, wanted = result.to(torch.float64), expected.to(torch.float64)
    info = torch.finfo(result.dtype)
    size = torch.maximum(got.abs(), wanted.abs()).clamp(min=max(info.tiny, magnitude))
    same = (got == wanted) | (got.isnan() & wanted.isnan())
    error = torch.where(same, 0.0, (got - wanted).abs() / (size * info.eps))
    assert not error.isnan().any()
    worst = int(error.argmax()) if error.numel() else None
    if worst is not None and error.reshape(-1)[worst] > ulps:
        pair = got.reshape(-1)[worst].item(), wanted.reshape(-1)[worst].item()
        raise AssertionError(f"{error.max().item()} ulps: {pair[0]} instead of {pair[1]}")


def draw(
    seed: int, shape: Iterable[int], dtype: Any = numpy.float32, low: float = -3, high: float = 3
) -> numpy.ndarray:
    """Return seeded values without ties, as floats or integers."""
    generator = numpy.random.default_rng(seed)
    return generator.uniform(low, high, tuple(shape)).astype(dtype)
