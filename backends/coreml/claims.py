"""The ATen operators that CoreML's partitioner takes, asked call by call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from executorch.backends.apple.coreml.partition import coreml_partitioner

from harness.backend_api import OperatorClaim, op_name
from harness.vendors.torch import _dispatch_get_all_op_names


def list_claims() -> dict[str, OperatorClaim]:
    """List the operators whose calls coremltools has a converter for, whatever their arguments."""
    support = coreml_partitioner._OperatorsSupportedForCoreMLBackend()
    claim = OperatorClaim(source="coremltools")
    return {
        op_name(operator): claim
        for operator in _list_operators()
        if support.is_node_supported({}, _make_call(operator))
    }


def _list_operators() -> Iterator[Any]:
    """Yield ATen operators that programs can contain: coremltools refuses to answer for others."""
    for qualified in sorted(_dispatch_get_all_op_names()):
        namespace, _, name = qualified.partition("::")
        base, _, overload = name.partition(".")
        if namespace == "aten" and "backward" not in base and not base.endswith("_"):
            operator = getattr(getattr(torch.ops.aten, base, None), overload or "default", None)
            if operator is not None and not operator._schema.is_mutable:
                yield operator


def _make_call(operator: Any) -> torch.fx.Node:
    graph = torch.fx.Graph()
    return graph.call_function(operator, (graph.placeholder("x"), graph.placeholder("y")))
