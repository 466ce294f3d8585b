"""What the Metal runtime of the pinned ExecuTorch release makes of the calls of generated code.

::

    from backends.metal.contract import Checker, TensorMeta, bind

    checker = Checker()
    for violation in checker.check(bind("aoti_torch_mps_mm_out", out, left, right)):
        print(violation)

Tensors are described as the wrapper means them; how the runtime would store them is worked out
here (``layout``). The inputs and outputs of a delegate pass through the runtime as well: check
``aoti_torch_empty_strided`` and ``aoti_torch_copy_`` for them as the delegate calls those.
"""

from backends.metal.contract.call import Call, TensorMeta
from backends.metal.contract.rule import RELEASE, Function, Kind, Rule, Violation
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
    "Call",
    "Checker",
    "Function",
    "Kind",
    "Rule",
    "TensorMeta",
    "Violation",
    "bind",
    "check",
    "contract_document",
    "contract_table",
    "implemented",
]
