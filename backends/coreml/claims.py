"""The core ATen operators that CoreML's partitioner takes, asked call by call."""

from __future__ import annotations

from typing import Any

import torch
from executorch.backends.apple.coreml.partition import coreml_partitioner

from harness.backend_api import OperatorClaim, list_core_operators, op_name
from harness.vendors.executorch import ops


def list_claims() -> dict[str, OperatorClaim]:
    """List the operators whose calls coremltools has a converter for, whatever their arguments."""
    support = coreml_partitioner._OperatorsSupportedForCoreMLBackend()
    claim = OperatorClaim(source="coremltools")
    return {
        op_name(operator): claim
        for names in list_core_operators().values()
        for operator in map(_find_operator, names)
        # coremltools refuses to answer for operators that work in place.
        if not operator._schema.is_mutable and support.is_node_supported({}, _make_call(operator))
    }


def _find_operator(name: str) -> Any:
    namespace, base, overload = name.split(".")
    packet = getattr(getattr(ops.edge, namespace), base, None)
    return getattr(packet, overload, None)


def _make_call(operator: Any) -> torch.fx.Node:
    graph = torch.fx.Graph()
    return graph.call_function(operator, (graph.placeholder("x"), graph.placeholder("y")))
