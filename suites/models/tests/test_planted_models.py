"""A weight that is wrong by half a percent fails every model, and the trace names its layer."""

from __future__ import annotations

import math

import pytest
import torch

from harness import Case, trace
from suites.models.tests.planting import make_wrong_weight_recipe
from suites.models.tests.test_telling_models import MODELS

TARGETS = ["portable:fp32", "xnnpack:fp32", "tosa:fp", "mlx:fp32", "metal:fp32"]
# A node that exceeds its bound on the target without the fault, before the corrupted node.
OWN = {
    ("gemma3/tiny", "xnnpack:fp32"): "aten.gelu.default",
    ("siglip/tiny", "xnnpack:fp32"): "aten.gelu.default",
    ("mamba/tiny", "tosa:fp"): "aten.softplus.default",
    ("mamba/tiny", "metal:fp32"): "aten.softplus.default",
    ("moonshine/tiny", "tosa:fp"): "aten.tanh.default",
    ("sam2/tiny", "tosa:fp"): "aten.scaled_dot_product_attention.default",
}
BY_DAY = {("llama/tiny", "mlx:fp32"), ("resnet/tiny", "xnnpack:fp32")}


def find_weight(case: Case) -> tuple[str, torch.Tensor]:
    """Find a matrix or kernel in the middle of a model, and its name.

    Embeddings do not count, nor do parameters that are not a factor of a product (Mamba's
    ``A_log``).
    """
    module = case.make().module
    embeddings = {
        id(part.weight) for part in module.modules() if isinstance(part, torch.nn.Embedding)
    }
    weights = [
        (name, weight)
        for name, weight in module.named_parameters()
        if name.rpartition(".")[2].startswith("weight")
        and weight.ndim >= 2
        and min(weight.shape[:2]) > 1
        and id(weight) not in embeddings
    ]
    return weights[min(math.ceil(len(weights) / 2), len(weights) - 1)]


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("case", "target"),
    [
        pytest.param(
            case,
            target,
            id=f"{case.name}-{target}",
            marks=[] if (case.name, target) in BY_DAY else [pytest.mark.nightly],
        )
        for case in MODELS
        for target in TARGETS
    ],
)
def test_half_a_percent_of_a_weight_is_found_in_its_layer(case: Case, target: str) -> None:
    name, weight = find_weight(case)
    found = trace(case, target, recipe=make_wrong_weight_recipe(target, weight, 1.005))
    if found.stage is not None:
        pytest.skip(f"does not come so far: {found.problem}")
    assert found.problem is not None
    assert found.first is not None
    if found.first.op == OWN.get((case.name, target)):
        pytest.skip(f"errs at {found.first.node} without a fault")
    assert found.first.module
    assert name.startswith(found.first.module)
