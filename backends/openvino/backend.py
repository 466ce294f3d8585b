"""The OpenVINO backend: how it executes the programs of its recipes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from backends.openvino.library import INSTALL, LIBRARY_VARIABLE, find_library, find_missing_packages
from backends.openvino.recipes import DELEGATE, RECIPES
from harness import Inputs
from harness.backend_api import Availability, Execution, LoweringCode

if TYPE_CHECKING:
    from harness.backend_api import DelegatePayload, OperatorClaim, Recipe


class Openvino:
    """Runs whole programs natively; fallback nodes run on portable kernels."""

    name = "openvino"
    delegate = DELEGATE
    recipes = RECIPES
    lowering_code = LoweringCode(("executorch.backends.openvino",))

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Look for the packages, the delegate in the runtime, and a library that loads."""
        packages = ("openvino", "nncf", "executorch", "torch")
        can_lower = False
        try:
            if missing := find_missing_packages():
                reason = f"{' and '.join(missing)} not installed; {INSTALL}"
                return Availability(False, reason, packages=packages)
            can_lower = True
            from harness.backend_api import list_native_backends

            if DELEGATE not in (registered := list_native_backends()):
                have = ", ".join(registered) or "none"
                reason = f"the runtime has no {DELEGATE}, only {have}; use executorch for Linux"
                return Availability(False, reason, packages=packages, can_lower=can_lower)
            library = find_library()
            if library is None or not library.exists():
                reason = f"{library or 'libopenvino_c.so'} does not exist; set {LIBRARY_VARIABLE}"
                return Availability(False, reason, packages=packages, can_lower=can_lower)
            from backends.openvino.execution import query_precision

            chosen = query_precision()
        except Exception as error:
            return Availability(False, str(error), packages=packages, can_lower=can_lower)
        return Availability(
            True,
            runtime="native",
            packages=packages,
            can_lower=True,
            tools=f"openvino:default computes in {chosen.precision}",
        )

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively, in a child process if the program has a delegate."""
        from harness.backend_api import Program, run_native

        if not Program(program).plan.delegates:
            return Execution(run_native(program, calls), "native")
        from backends.openvino import execution

        return execution.execute(program, calls)

    def claim_operators(self, recipe: Recipe) -> Mapping[str, OperatorClaim]:
        """Return the operators of the partitioner's tables."""
        from backends.openvino.claims import list_claims

        return list_claims()

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """List the operations of a payload."""
        from backends.openvino.listing import describe_payload

        return describe_payload(payload)


BACKEND = Openvino()
