"""The operators that OpenVINO's partitioner takes, from its table and that of OpenVINO itself."""

from __future__ import annotations

from typing import Any

import torch

from harness.backend_api import OperatorClaim

_PREFIX = "torch.ops."


def list_claims() -> dict[str, OperatorClaim]:
    """List the operators of the tables that the installed torch has."""
    # It needs the package openvino, an extra of this project.
    from executorch.backends.openvino.partitioner import OpenvinoOperatorsSupport, OperatorSupport

    tables = {
        "OpenVINO's op_support.py": OperatorSupport([])._support_dict,
        "OpenvinoOperatorsSupport": OpenvinoOperatorsSupport.extended_support_dict,
    }
    return {
        name.removeprefix(_PREFIX): OperatorClaim(source=source)
        for source, table in tables.items()
        for name in table
        if name.startswith(_PREFIX) and _is_operator(name.removeprefix(_PREFIX))
    }


def _is_operator(name: str) -> bool:
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    return hasattr(found, "_schema")
