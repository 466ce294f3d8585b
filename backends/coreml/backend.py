"""The CoreML backend: how it executes the programs of its recipes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from backends.coreml.delegate_id import DELEGATE
from backends.coreml.recipes import RECIPES
from backends.coreml.settings import SETTINGS
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


class Coreml:
    """Executes payloads natively where the runtime has the delegate, else their MIL programs."""

    name = "coreml"
    delegate = DELEGATE
    recipes = RECIPES
    settings = SETTINGS
    # coremltools converts for every CoreML user; ExecuTorch's package chooses what it converts, and
    # registers conversions of its own.
    lowering_code = LoweringCode(("executorch.backends.apple.coreml",))

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Import the compiler, and look the delegate up in the runtime's registry."""
        packages = ("coremltools", "executorch", "torch")
        try:
            from backends.coreml.quiet import import_compiler
            from harness.backend_api import list_native_backends

            import_compiler()
            registered = list_native_backends()
        except Exception as error:
            reason = f"{error}; install coremltools as executorch's wheel requires it"
            return Availability(False, reason, packages=packages)
        runtime = "native" if DELEGATE in registered else "emulated"
        return Availability(True, runtime=runtime, packages=packages)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively where possible; a program without a delegate always runs natively."""
        from harness.backend_api import Program, list_native_backends, run_native

        parsed = Program(program)
        if not parsed.plan.delegates or DELEGATE in list_native_backends():
            return Execution(run_native(program, calls), "native")
        return self._interpret(parsed, calls)

    def emulate(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program, each delegate call with our kernels."""
        from harness.backend_api import Program

        return self._interpret(Program(program), calls)

    def loader(self, program: Program) -> DelegateLoader:
        """Return the loader that executes payloads with our kernels."""
        from backends.coreml.execution.delegate import load

        return load

    def claim_operators(self, recipe: Recipe) -> Mapping[str, OperatorClaim]:
        """Ask the partitioner about each core ATen operator."""
        from backends.coreml.claims import list_claims

        return list_claims()

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """List the operations of a payload."""
        from backends.coreml.payload import reader
        from backends.coreml.payload.payload_text import list_operations

        return list_operations(reader.load(payload.data, payload.named_data))

    def constants(self, payload: DelegatePayload) -> PayloadConstants:
        """Return the values of the weight file; methods that share it refer to named data."""
        from backends.coreml.payload import metadata, reader
        from backends.coreml.payload.payload_text import list_blobs
        from harness.backend_api import PayloadConstants

        found = metadata.find_model(payload.data, payload.named_data)
        shared = frozenset([found.shared] if found.shared else ())
        return PayloadConstants(list_blobs(reader.read_model(found)), shared)

    def _interpret(self, program: Program, calls: Sequence[Inputs]) -> Execution:
        from harness.backend_api import Interpreter, RuntimeKernels

        loaders = {DELEGATE: self.loader(program)}
        interpreter = Interpreter(program, loaders, RuntimeKernels())
        return Execution([interpreter(inputs) for inputs in calls], "emulated")


BACKEND = Coreml()
