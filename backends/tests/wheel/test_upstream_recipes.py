"""Every recipe that the installed wheel offers for our backends is a target, or has a reason.

The wheel offers recipes in two places: members of ``RecipeType`` in ``backends/*/recipes`` and
flows of upstream's own test suite in ``backends/test/suite/flows``. Both are read as source text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import executorch
import pytest

from harness.model import registry
from harness.record.target import Target, is_target

# Folders below ``executorch/backends``, and names of flows, of our backends.
FOLDERS = ("xnnpack", "arm", "mlx", "apple/metal", "apple/coreml")
FLOWS = ("xnnpack", "arm", "mlx", "metal", "portable", "tosa", "coreml")

_ETHOS = "Ethos-U payloads come from the closed compiler Vela and run on no host; {} covers TOSA"
_VGF = "VGF payloads come from Arm's model converter and run with Vulkan; {} covers TOSA"

COVERED: dict[str, str] = {
    "XNNPackRecipeType.FP32": "xnnpack:fp32",
    "XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL": "xnnpack:int8_dynamic",
    "XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL": "xnnpack:int8",
    "XNNPackRecipeType.PT2E_INT8_STATIC_PER_TENSOR": "xnnpack:int8_per_tensor",
    "XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL": (
        "xnnpack:int4_per_channel"
    ),
    "XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR": "xnnpack:int4",
    "ArmRecipeType.ETHOS_U55_INT8": _ETHOS.format("tosa:int_u55"),
    "ArmRecipeType.ETHOS_U65_INT8": _ETHOS.format("tosa:int"),
    "ArmRecipeType.ETHOS_U85_INT8": _ETHOS.format("tosa:int"),
    "ArmRecipeType.TOSA_FP": "tosa:fp",
    "ArmRecipeType.TOSA_INT8": "tosa:int",
    "ArmRecipeType.TOSA_A16W8": "tosa:int16",
    "ArmRecipeType.VGF_FP": _VGF.format("tosa:fp"),
    "ArmRecipeType.VGF_INT8": _VGF.format("tosa:int"),
    "CoreMLRecipeType.FP32": "coreml:fp32",
    "CoreMLRecipeType.FP16": "coreml:fp16",
    "CoreMLRecipeType.PT2E_INT8_STATIC": "coreml:int8",
    "CoreMLRecipeType.PT2E_INT8_WEIGHT_ONLY": "coreml:int8_pt2e_weights",
    "CoreMLRecipeType.TORCHAO_INT4_WEIGHT_ONLY_PER_CHANNEL": "coreml:int4_per_channel",
    "CoreMLRecipeType.TORCHAO_INT4_WEIGHT_ONLY_PER_GROUP": "coreml:int4",
    "CoreMLRecipeType.TORCHAO_INT8_WEIGHT_ONLY_PER_CHANNEL": "coreml:int8_weights",
    "CoreMLRecipeType.TORCHAO_INT8_WEIGHT_ONLY_PER_GROUP": "coreml:int8_weights_grouped",
    "CoreMLRecipeType.CODEBOOK_WEIGHT_ONLY": "coreml:lut4",
    "xnnpack.XNNPACK_TEST_FLOW": "xnnpack:fp32",
    "xnnpack.XNNPACK_DYNAMIC_INT8_PER_CHANNEL_TEST_FLOW": "xnnpack:int8_dynamic",
    "xnnpack.XNNPACK_STATIC_INT8_PER_CHANNEL_TEST_FLOW": "xnnpack:int8",
    "xnnpack.XNNPACK_STATIC_INT8_PER_TENSOR_TEST_FLOW": "xnnpack:int8_per_tensor",
    "arm.ARM_TOSA_FP_FLOW": "tosa:fp",
    "arm.ARM_TOSA_INT_FLOW": "tosa:int",
    "arm.ARM_ETHOS_U55_FLOW": _ETHOS.format("tosa:int_u55"),
    "arm.ARM_ETHOS_U85_FLOW": _ETHOS.format("tosa:int"),
    "arm.ARM_VGF_FP_FLOW": _VGF.format("tosa:fp"),
    "arm.ARM_VGF_INT_FLOW": _VGF.format("tosa:int"),
    "mlx.MLX_TEST_FLOW": "mlx:fp32",
    "coreml.COREML_TEST_FLOW": "coreml:fp16",
    "coreml.COREML_STATIC_INT8_TEST_FLOW": "coreml:int8",
    "portable.PORTABLE_TEST_FLOW": "portable:fp32",
}
"""The target of each recipe that the wheel offers, or the reason why it has none."""


def list_offered(package: Path) -> set[str]:
    """Return the names of the recipes in a package: ``Class.MEMBER`` and ``module.FLOW``."""
    backends = package / "backends"
    found: set[str] = set()
    for folder in FOLDERS:
        for file in (backends / folder / "recipes").glob("*_types.py"):
            found.update(_list_members(ast.parse(file.read_text())))
    for name in FLOWS:
        file = backends / "test" / "suite" / "flows" / f"{name}.py"
        if file.exists():
            found.update(f"{name}.{flow}" for flow in _list_flows(ast.parse(file.read_text())))
    return found


def _list_members(module: ast.Module) -> Iterator[str]:
    for item in module.body:
        if isinstance(item, ast.ClassDef) and "RecipeType" in map(ast.unparse, item.bases):
            yield from (f"{item.name}.{name}" for name in _list_assigned(item.body))


def _list_flows(module: ast.Module) -> Iterator[str]:
    return (name for name in _list_assigned(module.body) if name.endswith("_FLOW"))


def _list_assigned(statements: list[ast.stmt]) -> Iterator[str]:
    for item in statements:
        targets = item.targets if isinstance(item, ast.Assign) else []
        targets = [item.target] if isinstance(item, ast.AnnAssign) else targets
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def find_problems(offered: set[str], covered: Mapping[str, str]) -> list[str]:
    """Return recipes without an entry, entries without a recipe, and targets that do not exist."""
    known = {str(target) for target in registry.known_targets()}
    return [
        *(f"{name} has neither a target nor a reason" for name in sorted(offered - covered.keys())),
        *(f"{name} is not in the wheel" for name in sorted(covered.keys() - offered)),
        *(
            f"{name}: there is no target {where}"
            for name, where in covered.items()
            if is_target(where) and str(Target.parse(where)) not in known
        ),
    ]


def test_the_wheel_offers_no_recipe_without_a_target_or_a_reason() -> None:
    offered = list_offered(Path(executorch.__path__[0]))
    assert len(offered) > 20
    assert find_problems(offered, COVERED) == []


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package with one more recipe and one more flow than the table."""
    recipes = tmp_path / "backends" / "xnnpack" / "recipes"
    flows = tmp_path / "backends" / "test" / "suite" / "flows"
    recipes.mkdir(parents=True)
    flows.mkdir(parents=True)
    (recipes / "xnnpack_recipe_types.py").write_text(
        "class XNNPackRecipeType(RecipeType):\n    FP32 = 'fp32'\n    FP8 = ('fp8')\n"
    )
    (flows / "mlx.py").write_text("A: TestFlow = 1\nMLX_INT2_TEST_FLOW: TestFlow = make()\n")
    return tmp_path


def test_a_new_recipe_a_stale_entry_and_a_wrong_target_are_problems(wheel: Path) -> None:
    covered = {"XNNPackRecipeType.FP32": "xnnpack:fp33", "XNNPackRecipeType.FP64": "no kernels"}
    assert find_problems(list_offered(wheel), covered) == [
        "XNNPackRecipeType.FP8 has neither a target nor a reason",
        "mlx.MLX_INT2_TEST_FLOW has neither a target nor a reason",
        "XNNPackRecipeType.FP64 is not in the wheel",
        "XNNPackRecipeType.FP32: there is no target xnnpack:fp33",
    ]
