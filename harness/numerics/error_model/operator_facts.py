"""What is known of an operator before it is called, looked up once for each."""

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
class Operator:
    """An overload as a mode runs it.

    Attributes:
        name: its base name.
        schema: its name with the namespace, ``namespace::name``.
        is_mutable: it writes to an argument.
        encodes: it quantizes; what comes of that is codes.
        measures: it chooses the parameters of a quantization.
        decodes: it is the plain inverse of a quantization.
        own: what a custom operator in Python is made of; None for another.
        parts: what a compound operation is made of; None for another.
        interpolates: it is an interpolation whose sizes are given.
        is_composite: the dispatcher has it as others.
        may_jump: its result may move by a step for the least error of an argument.
    """

    name: str
    schema: str
    is_mutable: bool
    encodes: bool
    measures: bool
    decodes: bool
    own: Callable[..., Any] | None
    parts: Callable[..., Any] | None
    interpolates: bool
    is_composite: bool
    may_jump: bool


@functools.cache
def operator(func: Any) -> Operator:
    """What is known of an overload."""
    name, mutable = base_name(func), func._schema.is_mutable
    custom = None if mutable or func.namespace == "prims" else _maybe_get_opdef(func)
    return Operator(
        name=name,
        schema=func._schema.name,
        is_mutable=mutable,
        encodes=name.startswith(("quantize_per", "quantize_affine")),
        measures=name.startswith("choose_qparams"),
        decodes=name.startswith("dequantize_per"),
        own=None if custom is None else custom._init_fn,
        parts=_parts(func, name),
        interpolates=name in INTERPOLATIONS and "vec" not in func._schema.overload_name,
        is_composite=not mutable and func.has_kernel_for_dispatch_key(_COMPOSITE),
        may_jump=discontinuities.may_jump(func, name),
    )


def _parts(func: Any, name: str) -> Callable[..., Any] | None:
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
