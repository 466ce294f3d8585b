"""The operators of the Cortex-M library, which its passes put in place of quantized ATen ones."""

from __future__ import annotations

# The module of the operators cannot be imported first: its imports are circular.
import executorch.backends.cortex_m.passes.cortex_m_pass_manager  # noqa: F401
import torch

from harness.backend_api import OperatorClaim, op_name
from harness.vendors.torch import _dispatch_get_all_op_names


def list_claims(library: str) -> dict[str, OperatorClaim]:
    """List the operators of the library's namespace, without those that write to an output."""
    found = {}
    for qualified in sorted(_dispatch_get_all_op_names()):
        namespace, _, name = qualified.partition("::")
        base, _, overload = name.partition(".")
        if namespace == library:
            operator = getattr(getattr(getattr(torch.ops, library), base), overload or "default")
            if not operator._schema.is_mutable:
                found[op_name(operator)] = OperatorClaim(source=qualified)
    return found
