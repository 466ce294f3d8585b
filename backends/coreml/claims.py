"""The ATen operators that CoreML's partitioner takes, asked call by call."""

from __future__ import annotations

from typing import Any

import torch
from executorch.backends.apple.coreml.partition import coreml_partitioner

from harness.backend_api import OperatorClaim, list_operators, op_name


def list_claims() -> dict[str, OperatorClaim]:
    """List the operators whose calls coremltools has a converter for, whatever their arguments."""
    support = coreml_partitioner._OperatorsSupportedForCoreMLBackend()
    claim = OperatorClaim(source="coremltools")
    return {
        op_name(operator): claim
        for operator in list_operators("aten")
        if _is_forward(operator) and support.is_node_supported({}, _make_call(operator))
    }


def _is_forward(operator: Any) -> bool:
    """Whether programs can contain an operator: coremltools refuses to answer for others."""
    schema = operator._schema
    return not (schema.is_mutable or "backward" in schema.name or schema.name.endswith("_"))


def _make_call(operator: Any) -> torch.fx.Node:
    graph = torch.fx.Graph()
    return graph.call_function(operator, (graph.placeholder("x"), graph.placeholder("y")))
