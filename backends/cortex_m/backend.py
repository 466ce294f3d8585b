"""The Cortex-M backend: how it executes the programs of its recipes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from backends.cortex_m.recipes import RECIPES
from backends.cortex_m.settings import SETTINGS
from harness import Inputs
from harness.backend_api import Availability, Execution, LoweringCode

if TYPE_CHECKING:
    from harness.backend_api import Kernels, OperatorClaim, Recipe

LIBRARY = "cortex_m"


class CortexM:
    """Runs ``cortex_m`` operators on Arm's references in Python, others on portable kernels."""

    name = "cortex_m"
    library = LIBRARY
    recipes = RECIPES
    settings = SETTINGS
    lowering_code = LoweringCode(
        ("executorch.backends.cortex_m",), shared=("executorch.backends.arm",)
    )

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Import the lowering code, and CMSIS-NN's module that computes scratch sizes."""
        packages = ("executorch", "torch")
        try:
            self.kernels()
            from executorch.backends.cortex_m.library import cmsis_nn

            cmsis_nn.resolve_backend(cmsis_nn.CortexM.M55)
        except Exception as error:
            reason = f"{error}; install executorch 1.5 or later, whose wheel has cortex_m"
            return Availability(False, reason, packages=packages)
        return Availability(True, runtime="reference", packages=packages)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively where the runtime has all kernels, else interpret the program."""
        from harness.backend_api import (
            Interpreter,
            Program,
            RuntimeKernels,
            find_missing_kernels,
            run_native,
        )

        parsed = Program(program)
        if not find_missing_kernels(parsed.plan):
            return Execution(run_native(program, calls), "native")
        interpreter = Interpreter(parsed, {}, RuntimeKernels({LIBRARY: self.kernels()}))
        return Execution([interpreter(inputs) for inputs in calls], "reference")

    def claim_operators(self, recipe: Recipe) -> Mapping[str, OperatorClaim]:
        """Return the operators of the library."""
        from backends.cortex_m.claims import list_claims

        return list_claims(LIBRARY)

    def kernels(self) -> Kernels:
        """Return the references that Arm registers with torch.

        Raises:
            ImportError: the installed release has no ``executorch.backends.cortex_m``.
        """
        # The module of the operators cannot be imported first: its imports are circular.
        import executorch.backends.cortex_m.passes.cortex_m_pass_manager  # noqa: F401

        from harness.backend_api import ReferenceKernels

        return ReferenceKernels()


BACKEND = CortexM()
