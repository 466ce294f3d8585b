"""Facts about an operator that do not depend on the call, looked up once per overload."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from harness.numerics.error_model import discontinuities
from harness.numerics.error_model.interpolation import NAMES as INTERPOLATIONS
from harness.numerics.error_model.rounding import COMPOUND, base_name
from harness.vendors.torch import DispatchKey, _maybe_get_opdef, decomposition_table

_COMPOSITE = DispatchKey.CompositeImplicitAutograd


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """How a float64 mode runs an overload.

    Attributes:
        name: base name.
        schema: qualified name, ``namespace::name``.
        is_mutable: it writes to an argument.
        is_quantize: it quantizes to codes.
        is_choose_qparams: it chooses the parameters of a quantization.
        is_dequantize: it is the inverse of a quantization.
        custom_function: the Python implementation of a custom operator; None for others.
        decomposition: the decomposition of a compound operation; None for others.
        is_interpolation: it is an interpolation that takes output sizes.
        is_composite: the dispatcher decomposes it.
        may_be_discontinuous: a small error of an argument may change its result by a whole step.
    """

    name: str
    schema: str
    is_mutable: bool
    is_quantize: bool
    is_choose_qparams: bool
    is_dequantize: bool
    custom_function: Callable[..., Any] | None
    decomposition: Callable[..., Any] | None
    is_interpolation: bool
    is_composite: bool
    may_be_discontinuous: bool


@functools.cache
def get_operator_facts(func: Any) -> OperatorFacts:
    """Return the facts about an overload."""
    name, mutable = base_name(func), func._schema.is_mutable
    custom = None if mutable or func.namespace == "prims" else _maybe_get_opdef(func)
    return OperatorFacts(
        name=name,
        schema=func._schema.name,
        is_mutable=mutable,
        is_quantize=name.startswith(("quantize_per", "quantize_affine")),
        is_choose_qparams=name.startswith("choose_qparams"),
        is_dequantize=name.startswith("dequantize_per"),
        custom_function=None if custom is None else custom._init_fn,
        decomposition=_find_decomposition(func, name),
        is_interpolation=name in INTERPOLATIONS and "vec" not in func._schema.overload_name,
        is_composite=not mutable and func.has_kernel_for_dispatch_key(_COMPOSITE),
        may_be_discontinuous=discontinuities.may_be_discontinuous(func, name),
    )


def _find_decomposition(func: Any, name: str) -> Callable[..., Any] | None:
    if name not in COMPOUND:
        return None
    if func in decomposition_table or not func._schema.name.endswith("_"):
        return decomposition_table.get(func)
    pure = decomposition_table.get(getattr(torch.ops.aten, name).default)
    if pure is None:
        return None

    def in_place(written: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return written.copy_(pure(written, *args, **kwargs))

    return in_place
