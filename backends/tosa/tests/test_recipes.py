"""The recipes of further TOSA specifications emit them, and catch altered code of Arm's backend."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.backends.arm.operators import op_tosa_rescale
from executorch.backends.arm.operators.op_tosa_mul import MulVisitor
from executorch.backends.arm.tosa.specification import Tosa_1_00, Tosa_1_1

from backends.tosa import specifications
from backends.tosa.listing import list_operators
from harness import Case, Status, Tester, run_cell
from harness.backend_api import Program
from suites.build import nn_case, randn


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * 0.75


LAYER = nn_case("altered/layer", lambda: torch.nn.Linear(16, 8), randn(4, 16))
PRODUCT = Case("altered/product", lambda: (Scaled(), (torch.randn(4, 16),)))


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("tosa:int16", ("TOSA 1.0.0", "INT48", "INT16")),
        ("tosa:int_1_1", ("TOSA 1.1.0", "INT8")),
        ("tosa:bf16", ("TOSA 1.0.0", "BF16")),
        ("tosa:fp_1_1", ("TOSA 1.1.0", "FP32")),
    ],
)
def test_a_recipe_emits_its_specification(target: str, words: tuple[str, ...]) -> None:
    tester = Tester(LAYER, target).export()
    if tester.recipe.quantizer:
        tester.quantize()
    data = Program(tester.lower().to_executorch().serialize().program).delegates[0].data
    listing = "\n".join(list_operators(data))
    assert all(word in listing for word in words), listing


@pytest.mark.one_of(3)
@pytest.mark.parametrize("target", ["tosa:int16", "tosa:int_u55", "tosa:int_1_1"])
def test_a_wrong_scale_of_one_channel_is_red(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unaltered = op_tosa_rescale._compute_multiplier_and_shift

    def compute(scales: list[float], *width: int) -> Any:
        if len(scales) > 1:
            scales = [scales[0] * 1.05, *scales[1:]]
        return unaltered(scales, *width)

    monkeypatch.setattr(op_tosa_rescale, "_compute_multiplier_and_shift", compute)
    cell = run_cell(LAYER, target)
    assert cell.status is Status.MISMATCH, cell.error


@pytest.mark.parametrize("target", ["tosa:bf16", "tosa:fp_1_1"])
def test_a_dropped_multiplication_is_red(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import tosa_serializer as ts

    def define_node(
        self: Any, node: torch.fx.Node, tosa_graph: Any, inputs: list[Any], output: Any
    ) -> None:
        attribute = ts.TosaSerializerAttribute()
        attribute.IdentityAttribute()
        names = ([inputs[0].name], [output.name])
        self._serialize_operator(node, tosa_graph, ts.Op.IDENTITY, *names, attribute)

    monkeypatch.setattr(MulVisitor, "define_node", define_node)
    cell = run_cell(PRODUCT, target)
    assert cell.status is Status.MISMATCH, cell.error


def test_each_extension_has_a_recipe_or_a_reason() -> None:
    offered = {name for spec in (Tosa_1_00, Tosa_1_1) for names in spec.valid_extensions.values()
               for name in names}  # fmt: skip
    used = {
        name
        for specification in vars(specifications).values()
        if isinstance(specification, str) and specification.startswith("TOSA-")
        for name in specification.split("+")[2:]
    }
    assert offered == used | set(specifications.WITHOUT_RECIPE)
    assert not used & set(specifications.WITHOUT_RECIPE)
