"""What tells fake tensors, and calls of operators on them, from others.

A fake tensor without a gradient, a constant or symbols is told by its kind, and a call by the kinds
of its tensors, its other arguments and what else its operator looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Node
from torch.fx.immutable_collections import immutable_list

from harness.model.trees import PLAIN

_UNKEPT_TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class TensorKind(NamedTuple):
    """All that tells a fake tensor from others, where there is no more to it."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    storage_bytes: int


class NotCacheable(Exception):
    """More decides about a call, or comes of it, than kinds say."""


CallKey = tuple[Any, ...]
"""What tells a call, or a value in it, from others."""
_contexts: dict[OpOverload, Callable[[], object] | None] = {}


def get_operator_context(op: OpOverload) -> object:
    """What decides about the results of an operator besides its arguments.

    Raises:
        NotCacheable: nobody knows.
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
    """The variant of TOSA that a program is being lowered to; its operators refuse other dtypes."""
    from executorch.backends.arm.tosa.specification import TosaLoweringContext

    # Two that differ in their extensions alone compare equal, and print differently.
    return repr(TosaLoweringContext.tosa_spec_var.get(None))


def _nothing() -> None:
    pass


# Fake rules of other namespaces may hold state of their own.
_NAMESPACES = {
    "aten": _nothing,
    "dim_order_ops": _nothing,
    "quantized_decomposed": _nothing,
    "tosa": _tosa_specification,
}


def build_key(
    values: Iterable[Any],
    mode: FakeTensorMode,
    given: Mapping[Node, CallKey] = MappingProxyType({}),
) -> CallKey:
    """What tells arguments from others: kinds of tensors, and other values with their types, as 1
    and 1.0 make different results; in a graph, what is given of the nodes that make them.

    Raises:
        NotCacheable: more decides about them.
        KeyError: nothing is given of a node.
    """
    parts: list[Any] = []
    for value in values:
        its = type(value)
        if its is FakeTensor:
            parts.append(get_kind(value, mode))
        elif its in PLAIN:
            parts.append((its, value))
        elif its is tuple or its is list or its is immutable_list:
            parts.append((its, build_key(value, mode, given)))
        elif its is Node:
            parts.append((its, given[value]))
        else:
            raise NotCacheable
    return tuple(parts)


def get_kind(tensor: FakeTensor, mode: FakeTensorMode) -> TensorKind:
    """What tells a tensor from others of a mode.

    Args:
        tensor: a fake one.
        mode: that it should be of.

    Raises:
        NotCacheable: it is of another mode, has symbols for sizes, or there is more to it.
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
    if type(storage) is not int:  # a symbol's, though sizes and strides are known
        raise NotCacheable
    return TensorKind(tensor.shape, tensor.stride(), tensor.dtype, tensor.fake_device, storage)
