"""The portable backend: ExecuTorch's own kernels, no delegate. The control for other backends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness import Inputs
from harness.backend_api import (
    Availability,
    Execution,
    OperatorClaim,
    Precision,
    Recipe,
    Script,
)

if TYPE_CHECKING:
    from torch.fx import Node


def explain(partitioners: Sequence[Any], node: Node) -> str:
    """Say why no node is delegated: the backend has no partitioner."""
    return "portable delegates nothing"


class Portable:
    """Runs whole programs on the portable kernels of the installed runtime."""

    name = "portable"
    recipes = {"fp32": Recipe("fp32", Precision(), explain=explain, script=Script())}

    def availability(self) -> Availability:
        """Available wherever the runtime's Python bindings load."""
        packages = ("executorch", "torch")
        try:
            from harness.backend_api import list_native_backends

            list_native_backends()
        except Exception as error:
            return Availability(False, f"the ExecuTorch runtime does not load: {error}")
        return Availability(True, runtime="native", packages=packages)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively."""
        from harness.backend_api import run_native

        return Execution(run_native(program, calls), "native")

    def claim_operators(self, recipe: Recipe) -> Mapping[str, OperatorClaim]:
        """Return the operators of the kernels that the runtime has registered.

        Their dtypes are decided in each kernel's C++ code; the registry does not state them.
        """
        from harness.execution.operators import find_operator, list_native_kernels, op_name

        # Kernels are of out-variants; their operators take the same arguments otherwise.
        kernels: defaultdict[Any, dict[Any, str]] = defaultdict(dict)
        for name in sorted(list_native_kernels()):
            kernel = find_operator(name)
            if kernel is not None:
                kernels[kernel.overloadpacket][_list_inputs(kernel)] = name
        found = {}
        for functions, names in kernels.items():
            for operator in (getattr(functions, each) for each in functions.overloads()):
                source = names.get(_list_inputs(operator))
                if source is not None and not operator._schema.is_mutable:
                    found[op_name(operator)] = OperatorClaim(source=source)
        return found


# Options that an out-variant may lack: its output states them.
_OPTIONS = ("dtype", "layout", "device", "pin_memory")


def _list_inputs(operator: Any) -> tuple[tuple[str, str], ...]:
    return tuple(
        (each.name, str(each.type))
        for each in operator._schema.arguments
        if not each.is_out and each.name not in _OPTIONS
    )


BACKEND = Portable()
