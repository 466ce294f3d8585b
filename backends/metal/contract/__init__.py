"""The rules of the Metal runtime, in the pinned ExecuTorch release, for calls of generated code.

::

    from backends.metal.contract import Checker, CallTensor, bind

    checker = Checker()
    for violation in checker.check(bind("aoti_torch_mps_mm_out", out, left, right)):
        print(violation)

Tensors are described as the wrapper sees them; ``layout`` computes how the runtime stores them.
Inputs and outputs of a delegate also pass through the runtime: check the calls of
``aoti_torch_empty_strided`` and ``aoti_torch_copy_`` that the delegate makes for them.
"""

from backends.metal.contract.call import CallTensor, RuntimeCall
from backends.metal.contract.rule import (
    RELEASE,
    ContractRule,
    RuntimeFunction,
    Violation,
    ViolationKind,
)
from backends.metal.contract.table import (
    FUNCTIONS,
    Checker,
    bind,
    check,
    contract_document,
    contract_table,
    implemented,
)

__all__ = [
    "FUNCTIONS",
    "RELEASE",
    "CallTensor",
    "Checker",
    "ContractRule",
    "RuntimeCall",
    "RuntimeFunction",
    "Violation",
    "ViolationKind",
    "bind",
    "check",
    "contract_document",
    "contract_table",
    "implemented",
]
