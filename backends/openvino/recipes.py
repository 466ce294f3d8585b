"""The recipes of the OpenVINO backend."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from backends.openvino.execution import FLOAT32_ISA, ISA_VARIABLE
from backends.openvino.precision import FLOAT32
from harness.backend_api import Recipe, Script

if TYPE_CHECKING:
    from executorch.exir.backend.partitioner import Partitioner

DELEGATE = "OpenvinoBackend"


def make_partitioners(max_isa: str) -> list[Partitioner]:
    """Make the partitioner for the CPU.

    Args:
        max_isa: instruction set that programs are to be limited to; empty for no limit.
    """
    from executorch.backends.openvino.partitioner import OpenvinoPartitioner
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    specs = [CompileSpec("device", b"CPU")]
    if max_isa:
        specs.append(CompileSpec(ISA_VARIABLE, max_isa.encode()))
    return [OpenvinoPartitioner(specs)]


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "fp32", FLOAT32, partitioners=functools.partial(make_partitioners, FLOAT32_ISA)
        ),
    )
}
