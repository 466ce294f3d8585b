"""The portable backend: ExecuTorch's own kernels, no delegate. The control for other backends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness import Inputs
from harness.backend_api import Availability, Execution, Precision, Recipe, Script

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


BACKEND = Portable()
