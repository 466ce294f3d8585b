"""The operators that Metal takes: Inductor's code generation, and the delegate's own kernels.

The partitioner takes every node. An operator can be lowered if Inductor has code for it, or a
decomposition, or if the runtime has the kernel to which Inductor leaves it.
"""

from __future__ import annotations

import re
from typing import Any

from backends.metal.generation.upstream import MetalBackend
from harness.backend_api import OperatorClaim, op_name
from harness.vendors.torch import (
    DTYPE_TO_METAL,
    OpOverload,
    decompositions,
    fallbacks,
    lowerings,
)

_KERNEL = re.compile(r"at::_ops::(\w+)::call|(\w+)::(\w+)|aoti_torch_mps_(\w+?)(?:_out)?")


def list_claims() -> dict[str, OperatorClaim]:
    """List operators without side effects; dtypes are those of generated code for MPS."""
    dtypes = tuple(sorted(str(dtype).removeprefix("torch.") for dtype in DTYPE_TO_METAL))
    kernels = {name for names in map(_read_kernel, _list_kernels()) for name in names}
    found = {}
    for source, table in (("Inductor's decomposition", decompositions),
                          ("Inductor's lowering", lowerings)):  # fmt: skip
        for operator in table:
            if not isinstance(operator, OpOverload) or not _is_forward(operator):
                continue
            name = op_name(operator)
            if operator._schema.name.partition("::")[2] in kernels:
                found[name] = OperatorClaim(source="the delegate's kernels")
            elif operator not in fallbacks:
                found.setdefault(name, OperatorClaim(dtypes=dtypes, source=source))
    return found


def _list_kernels() -> list[str]:
    return list(MetalBackend.get_supported_fallback_kernels())


def _read_kernel(name: str) -> list[str]:
    """Return the operator's name without namespace, of a kernel in one of the three spellings."""
    match = _KERNEL.fullmatch(name)
    return [] if match is None else [part for part in match.group(1, 3, 4) if part]


def _is_forward(operator: Any) -> bool:
    """Whether programs can contain it: lowering functionalizes them, and they train nothing."""
    schema = operator._schema
    return not schema.is_mutable and "backward" not in schema.name and "_foreach" not in schema.name
