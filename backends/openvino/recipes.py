"""The recipes of the OpenVINO backend: partitioner, quantizers, rounding models and scripts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.openvino.library import FLOAT32_ISA, ISA_VARIABLE
from backends.openvino.precision import CHOSEN, FLOAT32, STATIC
from backends.openvino.quantization import keep_float, make_quantizer, spell_fake_quantize
from harness.backend_api import Recipe, Script, find_calibration_problem

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner
    from torch.fx import Node

DELEGATE = "OpenvinoBackend"

_PACKAGE = "executorch.backends.openvino"


def make_partitioners(max_isa: str = FLOAT32_ISA) -> list[Partitioner]:
    """Make the partitioner for the CPU.

    Args:
        max_isa: instruction set that programs are limited to; empty for no limit. The delegate
            ignores this compile spec; execution reads it.
    """
    from executorch.backends.openvino.partitioner import OpenvinoPartitioner
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    specs = [CompileSpec("device", b"CPU")]
    if max_isa:
        specs.append(CompileSpec(ISA_VARIABLE, max_isa.encode()))
    return [OpenvinoPartitioner(specs)]


def make_unfolding_passes() -> list[Any]:
    """Make the pass that gives quantized constants in the form that OpenVINO takes."""
    from backends.openvino.unfold import make_unfolding_pass

    return [make_unfolding_pass()]


def explain(partitioners: Sequence[Any], node: Node) -> str | None:
    """Say why a node is not delegated: OpenVINO's table of supported operators is all there is."""
    from openvino.frontend.pytorch.torchdynamo.op_support import OperatorSupport

    name = f"torch.ops.{getattr(node.target, '__name__', node.target)}"
    if name in OperatorSupport([])._support_dict:
        return None
    return "OpenVINO's OperatorSupport does not list this operator"


def make_script(max_isa: str = FLOAT32_ISA, **more: Any) -> Script:
    """Make the script of a recipe.

    It sets the environment variable before OpenVINO is imported. executorch itself finds the C
    library beside the package.
    """
    specs = 'CompileSpec("device", b"CPU")'
    environment: tuple[str, ...] = ()
    if max_isa:
        specs += f", CompileSpec({ISA_VARIABLE!r}, {max_isa.encode()!r})"
        environment = ("import os", f"os.environ[{ISA_VARIABLE!r}] = {max_isa!r}")
    return Script(
        imports=(
            *environment,
            f"from {_PACKAGE}.partitioner import OpenvinoPartitioner",
            "from executorch.exir.backend.compile_spec_schema import CompileSpec",
        ),
        partitioners=f"[OpenvinoPartitioner([{specs}])]",
        delegate=DELEGATE,
        **more,
    )


def _make_quantizing_script(mode: str) -> Script:
    plain = make_script(
        quantizer=f"OpenVINOQuantizer(mode=QuantizationMode.{mode})",
        transform_passes="[make_unfolding_pass()]",
        preamble=Path(__file__).with_name("unfold.py").read_text(),
    )
    names = "OpenVINOQuantizer, QuantizationMode"
    return replace(plain, imports=(*plain.imports, f"from {_PACKAGE}.quantizer import {names}"))


def _make_static_recipe(name: str, mode: str) -> Recipe:
    """Make a recipe with 8-bit activations and weights."""
    return Recipe(
        name,
        STATIC,
        quantizer=functools.partial(make_quantizer, mode),
        partitioners=make_partitioners,
        transform_passes=make_unfolding_passes,
        unsupported=find_calibration_problem,
        explain=explain,
        keep_float=keep_float,
        store_constants=spell_fake_quantize,
        script=_make_quantizing_script(mode),
        like=("xnnpack:int8",) if name == "int8" else (),
    )


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "fp32", FLOAT32, partitioners=make_partitioners, explain=explain, script=make_script()
        ),
        Recipe(
            "default",
            CHOSEN,
            partitioners=functools.partial(make_partitioners, ""),
            explain=explain,
            script=make_script(""),
        ),
        _make_static_recipe("int8", "INT8_SYM"),
        _make_static_recipe("int8_mixed", "INT8_MIXED"),
        _make_static_recipe("int8_transformer", "INT8_TRANSFORMER"),
    )
}
