"""Describe with what an operator is called in a lowered program: dtype, rank, layout, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from harness.record.program_data import OperatorCall

# The order of dimensions in memory, outermost first.
_CHANNELS_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def describe_call(node: torch.fx.Node, name: str, *, delegated: bool) -> OperatorCall:
    """Describe a call of an operator; see :class:`~harness.record.program_data.OperatorCall`.

    Args:
        node: the call. A node without metadata has no dtype.
        name: the operator's name in records.
        delegated: whether the backend computes it.
    """
    inputs = [tensor for source in node.all_input_nodes for tensor in _list_tensors(source)]
    outputs = _list_tensors(node)
    quantized = any(
        source.op == "call_function" and "dequantize" in str(source.target)
        for source in node.all_input_nodes
    )
    floating = (tensor for tensor in inputs if tensor.dtype.is_floating_point)
    first = next(floating, None)
    if first is None:
        first = next(iter((*inputs, *outputs)), None)
    if first is None:
        return OperatorCall(op=name, delegated=delegated, quantized=quantized)
    return OperatorCall(
        op=name,
        delegated=delegated,
        dtype=str(first.dtype).removeprefix("torch."),
        rank=first.dim(),
        layout=_name_layout(first),
        dynamic=any(_is_dynamic(tensor) for tensor in (*inputs, *outputs)),
        quantized=quantized,
    )


def _list_tensors(node: torch.fx.Node) -> Sequence[torch.Tensor]:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return (value,)
    if isinstance(value, list | tuple):
        return [item for item in value if isinstance(item, torch.Tensor)]
    return ()


def _is_dynamic(tensor: torch.Tensor) -> bool:
    return any(not isinstance(size, int) for size in tensor.shape)


def _name_layout(tensor: torch.Tensor) -> str:
    if tensor.layout is not torch.strided:
        return "other"
    sizes = [_get_expression(size) for size in tensor.shape]
    strides = [_get_expression(stride) for stride in tensor.stride()]
    if _is_dense(sizes, strides, range(len(sizes))):
        return "contiguous"
    order = _CHANNELS_LAST.get(len(sizes))
    return "channels_last" if order and _is_dense(sizes, strides, order) else "other"


def _get_expression(size: Any) -> Any:
    """Return a number or a symbolic expression; comparing SymInts would add guards to a program."""
    return size if isinstance(size, int) else size.node.expr


def _is_dense(sizes: Sequence[Any], strides: Sequence[Any], order: Sequence[int]) -> bool:
    """Whether memory holds the dimensions without gaps in an order; sizes of 1 have any stride."""
    expected = 1
    for dim in reversed(order):
        if sizes[dim] != 1:
            if strides[dim] != expected:
                return False
            expected = expected * sizes[dim]
    return True
