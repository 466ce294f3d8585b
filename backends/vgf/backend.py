"""The VGF backend: how it executes the programs of its recipes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from backends.vgf import tools
from backends.vgf.recipes import RECIPES
from harness import Inputs
from harness.backend_api import Availability, Execution, LoweringCode

if TYPE_CHECKING:
    from harness.backend_api import (
        DelegateLoader,
        DelegatePayload,
        OperatorClaim,
        PayloadConstants,
        Program,
        Recipe,
    )

DELEGATE = "VgfBackend"


class Vgf:
    """Runs delegate payloads on Arm's emulation layers and fallback nodes on portable kernels."""

    name = "vgf"
    delegate = DELEGATE
    # Most of the code that lowers for it is that of TOSA (backends/tosa).
    lowering_code = LoweringCode(
        ("executorch.backends.arm.vgf",),
        excluded=("executorch.backends.arm.vgf.check_env",),
        shared=("executorch.backends.arm",),
    )
    recipes = RECIPES

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Look for Arm's tools and for a driver; what is missing is the reason."""
        packages = (*tools.PACKAGES, "executorch", "torch")
        if problem := tools.find_converter_problem():
            return Availability(False, problem, packages=packages)
        if problem := tools.find_execution_problem():
            return Availability(False, problem, packages=packages, can_lower=True)
        return Availability(
            True, runtime="reference", packages=packages, tools=tools.describe_driver()
        )

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program; a program without a delegate runs natively."""
        from harness.backend_api import Interpreter, Program, RuntimeKernels, run_native

        parsed = Program(program)
        if not parsed.plan.delegates:
            return Execution(run_native(program, calls), "native")
        interpreter = Interpreter(parsed, {DELEGATE: self.loader(parsed)}, RuntimeKernels())
        return Execution([interpreter(inputs) for inputs in calls], "reference")

    def loader(self, program: Program) -> DelegateLoader:
        """Return the loader that executes payloads on the emulation layers, in a child process."""
        from backends.vgf.emulation import load

        return load

    def constants(self, payload: DelegatePayload) -> PayloadConstants:
        """Return the constants in the payload's constant section."""
        from backends.vgf.payload import read_constants
        from harness.backend_api import PayloadConstants

        return PayloadConstants(read_constants(payload.data))

    def claim_operators(self, recipe: Recipe) -> Mapping[str, OperatorClaim]:
        """Return the operators of the profile's lists and of the registered checks."""
        from backends.tosa.claims import list_claims

        return list_claims(recipe)

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """List the interface and the operators of a payload."""
        from backends.vgf.listing import list_payload

        return list_payload(payload.data)


BACKEND = Vgf()
