"""The operators of the Cortex-M library, which its passes put in place of quantized ATen ones."""

from __future__ import annotations

# The module of the operators cannot be imported first: its imports are circular.
import executorch.backends.cortex_m.passes.cortex_m_pass_manager  # noqa: F401

from harness.backend_api import OperatorClaim, list_operators, op_name


def list_claims(library: str) -> dict[str, OperatorClaim]:
    """List the operators of the library's namespace that do not write to an argument."""
    return {
        op_name(operator): OperatorClaim(source=str(operator._schema).partition("(")[0])
        for operator in list_operators(library)
        if not operator._schema.is_mutable
    }
