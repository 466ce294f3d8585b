"""The XNNPACK recipes and how their programs are executed."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from backends.xnnpack.quantization import DYNAMIC, STATIC, quantizer
from harness import (
    Availability,
    Execution,
    Inputs,
    KnownPass,
    Precision,
    Recipe,
    Script,
    uncalibratable,
)

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner
    from torch.fx import Node

    from harness import DelegatePayload, Held

DELEGATE = "XnnpackBackend"


def partitioners() -> list[Partitioner]:
    """The partitioner with its default configurations."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return [XnnpackPartitioner()]


def dynamic_partitioners() -> list[Partitioner]:
    """One delegate for each dynamically quantized operator, then the rest in float."""
    from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    # As XnnpackDynamicallyQuantizedPartitioner, which takes no other options before 1.5.0.
    kind = ConfigPrecisionType.DYNAMIC_QUANT
    dynamic = XnnpackPartitioner(config_precisions=kind, per_op_mode=True)
    return [dynamic, *partitioners()]


def explain(partitioners: Sequence[Any], node: Node) -> str | None:
    """Only operators that a configuration names are looked at; of the others nobody speaks."""
    from executorch.exir.backend.canonical_partitioners.config_partitioner import format_target_name

    name = format_target_name(getattr(node.target, "__name__", str(node.target)))
    if any(name in partitioner.target_partitioner_configs for partitioner in partitioners):
        return None
    return "the partitioner has no configuration for this operator"


_PARTITION = "executorch.backends.xnnpack.partition.xnnpack_partitioner"
_CONFIG = "executorch.backends.xnnpack.partition.config.xnnpack_config"
_QUANTIZER = "executorch.backends.xnnpack.quantizer.xnnpack_quantizer"

SCRIPT = Script(
    imports=(f"from {_PARTITION} import XnnpackPartitioner",),
    partitioners="[XnnpackPartitioner()]",
    delegate=DELEGATE,
)


def _quantizing(config: str) -> Script:
    """The script of a recipe that quantizes, by the arguments of its configuration."""
    names = "XNNPACKQuantizer, get_symmetric_quantization_config"
    return replace(
        SCRIPT,
        imports=(*SCRIPT.imports, f"from {_QUANTIZER} import {names}"),
        quantizer=f"XNNPACKQuantizer().set_global(get_symmetric_quantization_config({config}))",
    )


def _dynamic() -> Script:
    plain = _quantizing("is_per_channel=True, is_dynamic=True")
    kind = "config_precisions=ConfigPrecisionType.DYNAMIC_QUANT"
    return replace(
        plain,
        imports=(*plain.imports, f"from {_CONFIG} import ConfigPrecisionType"),
        partitioners=f"[XnnpackPartitioner({kind}, per_op_mode=True), XnnpackPartitioner()]",
    )


def _static(name: str, *, per_channel: bool) -> Recipe:
    return Recipe(
        name,
        STATIC,
        quantizer=functools.partial(quantizer, per_channel=per_channel, dynamic=False),
        partitioners=partitioners,
        unsupported=uncalibratable,
        explain=explain,
        script=_quantizing(f"is_per_channel={per_channel}, is_dynamic=False"),
    )


class Xnnpack:
    """Runs whole programs natively; operators that XNNPACK leaves run on portable kernels."""

    name = "xnnpack"
    delegate = DELEGATE
    passes = {
        "lift": KnownPass(
            "backends.xnnpack.lift:LiftConstantScalars",
            "makes constants of the numbers that tensors are multiplied by",
        )
    }
    recipes = {
        "fp32": Recipe(
            "fp32", Precision(), partitioners=partitioners, explain=explain, script=SCRIPT
        ),
        "int8": _static("int8", per_channel=True),
        "int8_per_tensor": _static("int8_per_tensor", per_channel=False),
        "int8_dynamic": Recipe(
            "int8_dynamic",
            DYNAMIC,
            quantizer=functools.partial(quantizer, per_channel=True, dynamic=True),
            partitioners=dynamic_partitioners,
            explain=explain,
            script=_dynamic(),
        ),
    }

    def availability(self) -> Availability:
        """Ask the runtime's registry for the delegate."""
        packages = ("executorch", "torch")
        try:
            import executorch.backends.xnnpack.partition.xnnpack_partitioner  # noqa: F401

            from harness import native_backends

            registered = native_backends()
        except Exception as error:
            return Availability(False, f"executorch does not load: {error}", packages=packages)
        if DELEGATE not in registered:
            have = ", ".join(registered) or "none"
            reason = f"the runtime has no {DELEGATE}, only {have}; install a build that has it"
            return Availability(False, reason, packages=packages, can_lower=True)
        return Availability(True, runtime="native", packages=packages)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively."""
        from harness import run_native

        return Execution(run_native(program, calls), "native")

    def constants(self, payload: DelegatePayload) -> Held:
        """What of its constants is not in named data, as one blob."""
        from backends.xnnpack.listing import constants
        from harness import Held

        return Held([constants(payload.data)])

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """The nodes of a payload."""
        from backends.xnnpack.listing import listing

        return listing(payload)


BACKEND = Xnnpack()
