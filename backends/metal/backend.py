"""The Metal recipes and how their programs are executed."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.backend import Availability, Execution, Recipe
from harness.case import Inputs
from harness.precision import Precision

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner

    from harness.tester import Tester

DELEGATE = "MetalBackend"

# Kernels compute in float32 and round once at a store; metal::precise functions err by at most
# 4 ULP (Metal Shading Language Specification, "Numerical Compliance"), 16 for pow; the runtime's
# matrix kernels accumulate in float32.
FLOAT32 = Precision(functions={"pow": 16.0, "tan": 6.0})
BFLOAT16 = replace(
    FLOAT32,
    float32_sums=frozenset(
        "mm bmm addmm baddbmm mv dot linear convolution sum mean var std".split()
    ),
)


def partitioners() -> list[Partitioner]:
    """The delegate's partitioner; without Apple hardware its code is generated here."""
    from backends.metal import upstream

    upstream.install()
    return upstream.partitioners()


class Metal:
    """Runs what Inductor generated: natively where the runtime has the delegate, else the
    generated wrapper and shaders themselves, on the CPU and against the runtime's contract."""

    name = "metal"
    recipes = {
        "fp32": Recipe("fp32", FLOAT32, partitioners=partitioners),
        "bf16": Recipe("bf16", BFLOAT16, dtype="bfloat16", partitioners=partitioners),
    }

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Ask the runtime for the delegate, then for a compiler for the shaders."""
        packages = ("executorch", "torch")
        from harness.execute import native_backends

        if DELEGATE in native_backends():
            return Availability(True, runtime="native", packages=packages)
        from backends.metal.host.toolchain import compiler

        try:
            compiler()
        except Exception as error:
            return Availability(False, f"{error}", packages=packages)
        if importlib.util.find_spec("executorch.backends.apple.metal") is None:
            return Availability(False, "executorch's wheel has no Metal backend", packages=packages)
        return Availability(True, runtime="emulated", packages=packages)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively where possible; a program without a delegate always is."""
        from harness.execute import native_backends, run_native
        from harness.program import Program

        if not Program(program).plan.delegates or DELEGATE in native_backends():
            return Execution(run_native(program, calls), "native")
        return self.emulate(program, calls)

    def emulate(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program, each delegate call on the host."""
        from backends.metal.delegate import load
        from harness.execute import Interpreter

        interpreter = Interpreter(program, {DELEGATE: load})
        return Execution([interpreter(inputs) for inputs in calls], "emulated")

    def inspect(self, tester: Tester) -> Iterable[str]:
        """Wrapper calls, kernels, and what the contract says of them."""
        from backends.metal.inspection import inspect

        return inspect(tester)


BACKEND = Metal()
