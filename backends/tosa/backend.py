"""The TOSA backend: how it executes the programs of its recipes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from backends.tosa.passes import PASSES
from backends.tosa.recipes import RECIPES
from backends.tosa.settings import SETTINGS
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

DELEGATE = "TOSABackend"


class Tosa:
    """Runs delegate payloads on the reference model and fallback nodes on portable kernels."""

    name = "tosa"
    delegate = DELEGATE
    passes = PASSES
    settings = SETTINGS
    lowering_code = LoweringCode(
        ("executorch.backends.arm",),
        # Other delegates of Arm, and tools.
        excluded=tuple(
            f"executorch.backends.arm.{name}"
            for name in ("cmsis_pack", "debug", "ethosu", "scripts", "vgf")
        ),
    )
    recipes = RECIPES

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Import the reference model; an error is the reason why the backend is unavailable."""
        packages = ("tosa-tools", "executorch", "torch")
        try:
            import tosa_reference_model  # noqa: F401
        except Exception as error:
            reason = f"{error}; install the version of tosa-tools that pyproject.toml pins"
            return Availability(False, reason, packages=packages)
        return Availability(True, runtime="reference", packages=packages)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program; a program without a delegate runs natively."""
        from harness.backend_api import Interpreter, Program, RuntimeKernels, run_native

        parsed = Program(program)
        if not parsed.plan.delegates:
            return Execution(run_native(program, calls), "native")
        interpreter = Interpreter(parsed, {DELEGATE: self.loader(parsed)}, RuntimeKernels())
        return Execution([interpreter(inputs) for inputs in calls], "reference")

    def loader(self, program: Program) -> DelegateLoader:
        """Return the loader that executes payloads on the reference model, in a child process."""
        from backends.tosa.reference import load

        return load

    def constants(self, payload: DelegatePayload) -> PayloadConstants:
        """Return the constants that the payload's graph contains."""
        from backends.tosa.graph import read_graph
        from harness.backend_api import PayloadConstants

        tensors = read_graph(payload.data).tensors.values()
        return PayloadConstants([tensor.data for tensor in tensors if tensor.data])

    def claim_operators(self, recipe: Recipe) -> Mapping[str, OperatorClaim]:
        """Return the operators of the profile's lists and of the registered checks."""
        from backends.tosa.claims import list_claims

        return list_claims(recipe)

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """List the operators of a payload."""
        from backends.tosa.listing import list_operators

        return list_operators(payload.data)


BACKEND = Tosa()
