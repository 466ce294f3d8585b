"""The operators that Arm's TOSA partitioner takes under a specification, from its lists.

Which dtypes an operator takes is decided in code, node by node; the lists do not state them.
"""

from __future__ import annotations

from typing import Any

from executorch.backends.arm.operator_support import (
    tosa_profile_supported_op_lists as lists,
    tosa_supported_operators as support,
)
from executorch.backends.arm.operator_support.ethos_u55_support import EthosU55NotSupported

from harness.backend_api import OperatorClaim, Recipe, op_name


def list_claims(recipe: Recipe) -> dict[str, OperatorClaim]:
    """List the operators of the profile's lists and of the registered checks."""
    (partitioner,) = recipe.partitioners()
    specification: Any = partitioner.tosa_spec
    integer, floating = specification.support_integer(), specification.support_float()
    named: list[tuple[str, Any]] = []
    if integer:
        # Releases before 1.5.0 have one list for the integer profile.
        name = "TOSA_PRO_MIXED_INT_SupportList" if floating else "TOSA_PRO_INT_SupportList"
        name = name if hasattr(lists, name) else "TOSA_PRO_INT_SupportList"
        named += [(name, target) for target in getattr(lists, name)]
    if floating:
        name = "TOSA_PRO_FP_SupportList"
        named += [(name, target) for target in getattr(lists, name)]
    if specification.support_extension("mxfp"):
        mx = support.MXOpsSupportList
        named += [(mx.__name__, target) for target in mx.targets]
    for check in support.get_registered_tosa_support_checks(specification):
        named += [(check.__name__, target) for target in check.targets]
    excluded = set(EthosU55NotSupported.unsupported_ops) if specification.is_U55_subset else set()
    return {
        op_name(target): OperatorClaim(quantized=True if integer else None, source=source)
        for source, target in named
        if target not in excluded and hasattr(target, "_schema")  # others read tuples
    }
