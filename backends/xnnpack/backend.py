"""The XNNPACK backend: its recipes, and how it executes their programs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from backends.xnnpack import weights
from backends.xnnpack.border import find_border_problem
from backends.xnnpack.precision import BFLOAT16, DYNAMIC, FLOAT16, FLOAT32, INT4, STATIC
from backends.xnnpack.quantization import keep_float, make_quantizer, store_biases
from backends.xnnpack.settings import SETTINGS
from harness import Inputs, is_installed_within
from harness.backend_api import (
    Availability,
    Execution,
    KnownPass,
    LoweringCode,
    Recipe,
    Script,
    describe_installed,
    find_calibration_problem,
)

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner
    from torch.fx import Node

    from harness import Built, Case
    from harness.backend_api import (
        DelegatePayload,
        OperatorClaim,
        PayloadConstants,
    )

DELEGATE = "XnnpackBackend"


def make_partitioners() -> list[Partitioner]:
    """Make the partitioner with its default configurations."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return [XnnpackPartitioner()]


def make_bfloat16_partitioners() -> list[Partitioner]:
    """Make the partitioner that also takes bfloat16, which it leaves alone by default."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return [XnnpackPartitioner(enable_bf16=True)]


def make_dynamic_partitioners() -> list[Partitioner]:
    """Make two partitioners: one delegate for each dynamically quantized operator, then float."""
    from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    # As XnnpackDynamicallyQuantizedPartitioner, which takes no other options before 1.5.0.
    kind = ConfigPrecisionType.DYNAMIC_QUANT
    dynamic = XnnpackPartitioner(config_precisions=kind, per_op_mode=True)
    return [dynamic, *make_partitioners()]


def _find_missing_option(case: Case, built: Built) -> str | None:
    """Return why the installed release delegates no bfloat16, or None."""
    if is_installed_within("1.5.0", ""):
        return None
    return f"{describe_installed()}: the partitioner delegates no bfloat16"


def explain(partitioners: Sequence[Any], node: Node) -> str | None:
    """Say why a node is not delegated, where the partitioner itself gives no reason.

    It looks only at operators that one of its configurations names.
    """
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


def _make_quantizing_script(config: str) -> Script:
    """Make the script of a quantizing recipe.

    Args:
        config: arguments of ``get_symmetric_quantization_config``, as source text.
    """
    names = "XNNPACKQuantizer, get_symmetric_quantization_config"
    return replace(
        SCRIPT,
        imports=(*SCRIPT.imports, f"from {_QUANTIZER} import {names}"),
        quantizer=f"XNNPACKQuantizer().set_global(get_symmetric_quantization_config({config}))",
    )


def _make_dynamic_script() -> Script:
    plain = _make_quantizing_script("is_per_channel=True, is_dynamic=True")
    kind = "config_precisions=ConfigPrecisionType.DYNAMIC_QUANT"
    return replace(
        plain,
        imports=(*plain.imports, f"from {_CONFIG} import ConfigPrecisionType"),
        partitioners=f"[XnnpackPartitioner({kind}, per_op_mode=True), XnnpackPartitioner()]",
    )


def _make_static_recipe(name: str, *, per_channel: bool) -> Recipe:
    return Recipe(
        name,
        STATIC,
        quantizer=functools.partial(make_quantizer, per_channel=per_channel, dynamic=False),
        partitioners=make_partitioners,
        unsupported=find_calibration_problem,
        explain=explain,
        keep_float=keep_float,
        store_constants=store_biases,
        verify=find_border_problem,
        script=_make_quantizing_script(f"is_per_channel={per_channel}, is_dynamic=False"),
    )


def _make_weight_recipe(format_: weights.XnnpackWeightFormat) -> Recipe:
    """Make a recipe with int4 weights; cases without suitable ones are unsupported."""
    script = replace(
        _make_dynamic_script(),
        imports=(*_make_dynamic_script().imports, "import torchao.quantization  # operators"),
        quantizer="",
    )
    return Recipe(
        format_.name,
        INT4,
        quantize_weights=format_,
        partitioners=make_dynamic_partitioners,
        unsupported=format_.unsupported,
        require_delegation=True,
        verify=format_.verify,
        explain=explain,
        script=script,
    )


class Xnnpack:
    """Runs whole programs natively; fallback nodes run on portable kernels."""

    name = "xnnpack"
    delegate = DELEGATE
    settings = SETTINGS
    lowering_code = LoweringCode(("executorch.backends.xnnpack",))
    passes = {
        "lift": KnownPass(
            "backends.xnnpack.lift:LiftConstantScalars",
            "turns Python numbers that multiply tensors into constant tensors",
        )
    }
    recipes = {
        "fp32": Recipe(
            "fp32",
            FLOAT32,
            partitioners=make_partitioners,
            verify=find_border_problem,
            explain=explain,
            script=SCRIPT,
        ),
        "fp16": Recipe(
            "fp16",
            FLOAT16,
            dtype="float16",
            partitioners=make_partitioners,
            verify=find_border_problem,
            explain=explain,
            script=SCRIPT,
        ),
        "bf16": Recipe(
            "bf16",
            BFLOAT16,
            dtype="bfloat16",
            partitioners=make_bfloat16_partitioners,
            unsupported=_find_missing_option,
            verify=find_border_problem,
            explain=explain,
            script=replace(SCRIPT, partitioners="[XnnpackPartitioner(enable_bf16=True)]"),
        ),
        "int8": _make_static_recipe("int8", per_channel=True),
        "int8_per_tensor": _make_static_recipe("int8_per_tensor", per_channel=False),
        "int8_dynamic": Recipe(
            "int8_dynamic",
            DYNAMIC,
            quantizer=functools.partial(make_quantizer, per_channel=True, dynamic=True),
            partitioners=make_dynamic_partitioners,
            verify=find_border_problem,
            explain=explain,
            keep_float=keep_float,
            script=_make_dynamic_script(),
        ),
        # No int8 weights alone: the delegate takes them for floats and drops their scales, which
        # docs/findings.md has and the case prequantized/int8_rows shows.
        "int4": _make_weight_recipe(weights.INT4),
        "int4_per_channel": _make_weight_recipe(weights.INT4_PER_CHANNEL),
    }

    def availability(self) -> Availability:
        """Look the delegate up in the runtime's registry."""
        packages = ("executorch", "torch")
        try:
            import executorch.backends.xnnpack.partition.xnnpack_partitioner  # noqa: F401

            from harness.backend_api import list_native_backends

            registered = list_native_backends()
        except Exception as error:
            return Availability(False, f"executorch does not load: {error}", packages=packages)
        if DELEGATE not in registered:
            have = ", ".join(registered) or "none"
            reason = f"the runtime has no {DELEGATE}, only {have}; install a build that has it"
            return Availability(False, reason, packages=packages, can_lower=True)
        return Availability(True, runtime="native", packages=packages)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively."""
        from harness.backend_api import run_native

        return Execution(run_native(program, calls), "native")

    def constants(self, payload: DelegatePayload) -> PayloadConstants:
        """Return the constants inside the payload as one blob; named data has the others."""
        from backends.xnnpack.listing import read_constants
        from harness.backend_api import PayloadConstants

        return PayloadConstants([read_constants(payload.data)])

    def claim_operators(self, recipe: Recipe) -> Mapping[str, OperatorClaim]:
        """Return the operators of the partitioners' configurations."""
        from backends.xnnpack.claims import list_claims

        return list_claims(recipe.partitioners())

    def describe(self, payload: DelegatePayload) -> Iterable[str]:
        """List the nodes of a payload."""
        from backends.xnnpack.listing import list_nodes

        return list_nodes(payload)


BACKEND = Xnnpack()
