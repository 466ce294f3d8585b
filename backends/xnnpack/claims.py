"""The operators that XNNPACK's partitioner takes, from its configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType

from harness.backend_api import OperatorClaim, op_name
from harness.vendors.executorch import ops

# A configuration names its operator without the namespace. Programs have quantize_per_tensor of the
# first one, not of aten.
_NAMESPACES = ("quantized_decomposed", "dim_order_ops", "torchao", "aten")

_DTYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.bool, torch.uint8,
    torch.int8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip


def list_claims(partitioners: Iterable[Any]) -> dict[str, OperatorClaim]:
    """List the operators of the configurations of partitioners, with the dtypes that pass the
    conditions that all configurations share."""
    found: dict[str, OperatorClaim] = {}
    for partitioner in partitioners:
        for name, config in partitioner.target_partitioner_configs.items():
            operator = _find_operator(name)
            dtypes = () if operator is None else tuple(_list_dtypes(operator, config))
            if not dtypes:  # the partitioner excludes the configuration's precisions
                continue
            before = found.get(op_name(operator))
            found[op_name(operator)] = OperatorClaim(
                dtypes=dtypes if before is None else before.dtypes,
                quantized=_is_quantized(config) or bool(before and before.quantized),
                source=type(config).__name__,
            )
    return found


def _find_operator(name: str) -> Any:
    """Return an operator; None if torch has none of this name."""
    base, _, overload = name.partition(".")
    for namespace in _NAMESPACES:
        packet = getattr(getattr(ops.edge, namespace), base, None)
        if (operator := getattr(packet, overload or "default", None)) is not None:
            return operator
    return None


def _list_dtypes(operator: Any, config: Any) -> Iterator[str]:
    """Yield the dtypes that the configuration takes, asked with a call of one input."""
    graph = torch.fx.Graph()
    source = graph.placeholder("x")
    node = graph.call_function(operator, (source,))
    for dtype in _DTYPES:
        source.meta["val"] = node.meta["val"] = torch.empty(2, dtype=dtype)
        if config.check_common_constraints(node, None):
            yield str(dtype).removeprefix("torch.")


def _is_quantized(config: Any) -> bool:
    kinds = {ConfigPrecisionType.STATIC_QUANT, ConfigPrecisionType.DYNAMIC_QUANT}
    return not kinds.isdisjoint(config.enabled_precision_types)
