"""Cache keys of fake tensors and of operator calls on them.

The key of a fake tensor without gradient, constant or symbols is its kind. The key of a call has
the kinds of its tensors, its other arguments and further context that the operator reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.immutable_collections import immutable_list

from harness.model.trees import PLAIN

_UNKEPT_TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class TensorKind(NamedTuple):
    """The properties that identify a fake tensor of one mode."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    storage_bytes: int


class NotCacheable(Exception):
    """A call, or its result, depends on more than a cache key covers."""


CallKey = tuple[Any, ...]
"""Cache key of a call, or of a value in it."""
_contexts: dict[OpOverload, Callable[[], object] | None] = {}


def get_operator_context(op: OpOverload) -> object:
    """Return the context that an operator's results depend on besides its arguments.

    Raises:
        NotCacheable: the context is unknown.
    """
    if op not in _contexts:
        values = (*op._schema.arguments, *op._schema.returns)
        follows = not _UNKEPT_TAGS.intersection(op.tags) and not any(
            value.alias_info for value in values
        )
        _contexts[op] = _NAMESPACES.get(op.namespace) if follows else None
    context = _contexts[op]
    if context is None:
        raise NotCacheable
    return context()


def _tosa_specification() -> object:
    """Return the TOSA specification of the lowering; operators reject dtypes that it lacks."""
    from executorch.backends.arm.tosa.specification import TosaLoweringContext

    # Specifications that differ only in extensions compare equal; their texts differ.
    return repr(TosaLoweringContext.tosa_spec_var.get(None))


def _nothing() -> None:
    pass


# Fake rules of other namespaces may have state.
_NAMESPACES = {
    "aten": _nothing,
    "dim_order_ops": _nothing,
    "quantized_decomposed": _nothing,
    "tosa": _tosa_specification,
}


def build_key(
    values: Iterable[Any],
    mode: FakeTensorMode,
) -> CallKey:
    """Build the cache key of arguments.

    It has the kinds of tensors, and other values with their types, because 1 and 1.0 lead to
    different results.

    Raises:
        NotCacheable: the arguments have more properties.
    """
    parts: list[Any] = []
    for value in values:
        its = type(value)
        if its is FakeTensor:
            parts.append(get_kind(value, mode))
        elif its in PLAIN:
            parts.append((its, value))
        elif its is tuple or its is list or its is immutable_list:
            parts.append((its, build_key(value, mode)))
        else:
            raise NotCacheable
    return tuple(parts)


def get_kind(tensor: FakeTensor, mode: FakeTensorMode) -> TensorKind:
    """Return the kind of a tensor.

    Args:
        tensor: a fake tensor.
        mode: its expected mode.

    Raises:
        NotCacheable: it has another mode, symbolic sizes, or more properties.
    """
    if (
        tensor.fake_mode is not mode
        or tensor._has_symbolic_sizes_strides
        or tensor.layout is not torch.strided
        or tensor.constant is not None
        or tensor.requires_grad
        or tensor.is_quantized
        or tensor.storage_offset() != 0
        or tensor.is_conj()
        or tensor.is_neg()
        or tensor.is_inference()
    ):
        raise NotCacheable
    storage = tensor.untyped_storage().nbytes()
    if type(storage) is not int:  # symbolic, although sizes and strides are known
        raise NotCacheable
    return TensorKind(tensor.shape, tensor.stride(), tensor.dtype, tensor.fake_device, storage)
