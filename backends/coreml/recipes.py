"""The recipes of the CoreML backend: converter options, quantization and scripts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from backends.coreml.delegate_id import DELEGATE
from backends.coreml.precision import FLOAT16, FLOAT32, QUANTIZED, WEIGHTS
from backends.coreml.quantization import (
    INTEGERS,
    LUT4,
    CoremlWeightFormat,
    make_lut_semantics,
    make_quantizer,
)
from harness.backend_api import Precision, Recipe, Script, find_calibration_problem

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig
    from executorch.exir.backend.partitioner import Partitioner
    from torch.fx import Node

    from harness import Built, Case


@dataclass(frozen=True)
class ConverterOptions:
    """Options of the CoreML partitioner. Calling them makes the partitioner.

    Attributes:
        precision: member of ``coremltools.precision``: the float type that the converter computes
            in.
        target: member of ``coremltools.target``: the oldest system that runs the model.
        takes_buffers: mutable buffers become states of the model.
    """

    precision: str = "FLOAT32"
    target: str = "iOS18"
    takes_buffers: bool = True

    def __call__(self) -> list[Partitioner]:
        """Make the partitioner."""
        from backends.coreml.quiet import import_compiler

        compiler = import_compiler()
        import coremltools
        from executorch.backends.apple.coreml.partition import CoreMLPartitioner

        specs = compiler.CoreMLBackend.generate_compile_specs(
            compute_precision=coremltools.precision[self.precision],
            minimum_deployment_target=coremltools.target[self.target],
        )
        return [CoreMLPartitioner(compile_specs=specs, take_over_mutable_buffer=self.takes_buffers)]

    @property
    def source(self) -> str:
        """The same as a Python expression."""
        buffers = "" if self.takes_buffers else ", take_over_mutable_buffer=False"
        return (
            "[CoreMLPartitioner(compile_specs=CoreMLBackend.generate_compile_specs("
            f"compute_precision=coremltools.precision.{self.precision}, "
            f"minimum_deployment_target=coremltools.target.{self.target}){buffers})]"
        )


def make_edge_config() -> EdgeCompileConfig:
    """Make upstream's configuration for CoreML: operators need not be core ATen."""
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False)


def make_script(options: ConverterOptions, **more: Any) -> Script:
    """Make the script of a recipe with these options."""
    return Script(
        imports=(
            "import coremltools",
            "from executorch.backends.apple.coreml.compiler import CoreMLBackend",
            "from executorch.backends.apple.coreml.partition import CoreMLPartitioner",
        ),
        partitioners=options.source,
        edge_config="EdgeCompileConfig(_check_ir_validity=False)",
        delegate=DELEGATE,
        ours="the harness executed the model's MIL program with kernels in torch",
        **more,
    )


def explain(partitioners: Sequence[Any], node: Node) -> str | None:
    """Explain why the partitioner does not delegate a node."""
    from executorch.backends.apple.coreml.partition import coreml_partitioner

    if node.op != "call_function":
        return None
    from coremltools.converters.mil.frontend.torch import is_torch_fx_node_supported

    try:
        is_converted = is_torch_fx_node_supported(node)
    except Exception as error:  # the converter's own defects end so: a reason as well
        return f"coremltools cannot say whether it converts this operator: {error}"
    if not is_converted:
        return "coremltools has no conversion of this operator"
    if node.target in coreml_partitioner._UNSUPPORTED_OP_TARGETS:
        return "the partitioner lists this operator as not supported by CoreML"
    if coreml_partitioner._is_arg_min_max_over_flattened_input(node):
        return "the partitioner refuses argmin and argmax of all elements"
    if "alpha" in node.kwargs and node.kwargs["alpha"] != 1:
        return "the partitioner refuses add and sub with an alpha"
    return None


def require_row_major(case: Case, built: Built) -> str | None:
    """Return why the converter does not take a case's inputs, or None."""
    if built.is_row_major():
        return None
    return "coremltools takes row-major inputs only: it refuses other dim orders"


def make_recipe(
    name: str,
    precision: Precision,
    options: ConverterOptions,
    **more: Any,
) -> Recipe:
    """Make a recipe with converter options; ``more`` are further fields."""
    defaults: dict[str, Any] = {
        "partitioners": options,
        "edge_config": make_edge_config,
        "unsupported": require_row_major,
        "explain": explain,
        "script": make_script(options),
    }
    return Recipe(name, precision, **{**defaults, **more})


FP32_OPTIONS = ConverterOptions()
FP16_OPTIONS = replace(FP32_OPTIONS, precision="FLOAT16")

_QUANTIZER = """\
def quantizer():
    settings = quantization.ModuleLinearQuantizerConfig(
        quantization_scheme="symmetric",
        activation_dtype=torch.{activations},
        weight_dtype=torch.qint8,
        weight_per_channel=True,
    )
    return CoreMLQuantizer(quantization.LinearQuantizerConfig(global_config=settings))
"""


def _make_weight_recipe(format_: CoremlWeightFormat, **more: Any) -> Recipe:
    """Make a float32 recipe with quantized weights; cases without suitable ones are unsupported."""

    def unsupported(case: Case, built: Built) -> str | None:
        return require_row_major(case, built) or format_.unsupported(case, built)

    plain = make_script(FP32_OPTIONS)
    register = (
        "import torchao.prototype.quantization.codebook_coreml  # registers operators"
        if format_ is LUT4
        else "import torchao.quantization  # registers operators"
    )
    return make_recipe(
        format_.name,
        WEIGHTS,
        FP32_OPTIONS,
        quantize_weights=format_,
        unsupported=unsupported,
        require_delegation=True,
        verify=format_.verify,
        script=replace(plain, imports=(*plain.imports, register)),
        **more,
    )


def _make_quantizing_recipe(name: str, activations: str, **more: Any) -> Recipe:
    """Make a recipe of CoreML's PT2E quantizer."""

    def unsupported(case: Case, built: Built) -> str | None:
        return require_row_major(case, built) or find_calibration_problem(case, built)

    plain = make_script(
        FP32_OPTIONS,
        quantizer="quantizer()",
        preamble=_QUANTIZER.format(activations=activations),
    )
    imports = (
        "from coremltools.optimize.torch import quantization",
        "from executorch.backends.apple.coreml.quantizer import CoreMLQuantizer",
    )
    return make_recipe(
        name,
        QUANTIZED,
        FP32_OPTIONS,
        quantizer=functools.partial(make_quantizer, activations),
        unsupported=unsupported,
        script=replace(plain, imports=(*plain.imports, *imports)),
        **more,
    )


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        make_recipe("fp32", FLOAT32, FP32_OPTIONS),
        make_recipe("fp16", FLOAT16, FP16_OPTIONS),
        *map(_make_weight_recipe, INTEGERS.values()),
        _make_weight_recipe(LUT4, semantics=make_lut_semantics),
        _make_quantizing_recipe("int8", "quint8", like=("xnnpack:int8",)),
        _make_quantizing_recipe("int8_pt2e_weights", "float32"),
    )
}
