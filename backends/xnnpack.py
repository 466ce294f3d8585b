"""XNNPACK: optimised CPU kernels, executed by the runtime's own delegate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.backend import Availability, Execution, Recipe
from harness.case import Inputs
from harness.precision import Precision

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner

DELEGATE = "XnnpackBackend"


def partitioners() -> list[Partitioner]:
    """The partitioner with its default configurations."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return [XnnpackPartitioner()]


class Xnnpack:
    """Runs whole programs natively; operators that XNNPACK leaves run on portable kernels."""

    name = "xnnpack"
    recipes = {"fp32": Recipe("fp32", Precision(), partitioners=partitioners)}

    def availability(self) -> Availability:
        """Ask the runtime's registry for the delegate."""
        packages = ("executorch", "torch")
        try:
            import executorch.backends.xnnpack.partition.xnnpack_partitioner  # noqa: F401

            from harness.execute import native_backends

            registered = native_backends()
        except Exception as error:
            return Availability(False, f"executorch does not load: {error}", packages=packages)
        if DELEGATE not in registered:
            have = ", ".join(registered) or "none"
            reason = f"the runtime has no {DELEGATE}, only {have}; install a build that has it"
            return Availability(False, reason, packages=packages)
        return Availability(True, runtime="native", packages=packages)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively."""
        from harness.execute import run_native

        return Execution(run_native(program, calls), "native")


BACKEND = Xnnpack()
