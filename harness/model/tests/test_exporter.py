"""Programs of transformers' exporter: a fault in one is red, and it leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from harness import CallInputs, Case, run_cell
from harness.pipeline.tests.test_shipping import facts
from harness.record.cell import Status
from suites.models import exporter, language

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

CASES = {case.name: case for case in exporter.CASES}


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("name", "target", "weight"),
    [
        ("llama_decode", "mlx:fp32", "model.layers.1.self_attn.q_proj.weight"),
        ("vit", "mlx:fp32", "vit.layers.1.attention.k_proj.weight"),
        pytest.param(
            "llama", "xnnpack:fp32", "model.layers.0.mlp.up_proj.weight", marks=pytest.mark.nightly
        ),
    ],
)
def test_a_weight_that_is_half_a_percent_off_is_red(name: str, target: str, weight: str) -> None:
    def make(module: torch.nn.Module, inputs: CallInputs, backend: str) -> Any:
        module.get_parameter(weight).mul_(1.005)
        return exporter.make(module, inputs, backend)

    case = CASES[f"exporter/{name}"]
    cell = run_cell(replace(case, exporter=replace(exporter.EXPORTER, make=make)), target)
    assert (cell.status, cell.stage) == (Status.MISMATCH, "compare")
    assert "exceed the bound" in (cell.error or "")


# Llama again, whose mask and attention the exporter patches, lowered by the harness itself.
BESIDE = Case(
    "exporter/beside",
    lambda: (language.Causal(language.llama()), language.sentence(12)()),
    targets="xnnpack:fp32|mlx:fp32",
)


def before_and_after(target: str) -> list[list[dict[str, Any]]]:
    """Records of the same cells before another kind of cell ran in the process, and after it."""
    shipped, plain = CASES["exporter/llama"], BESIDE
    first, between, last = (run_cell(case, target) for case in (plain, shipped, plain))
    return [[facts(first), facts(last)], [facts(between), facts(run_cell(shipped, target))]]


@pytest.mark.nightly
@pytest.mark.parametrize("target", ["mlx:fp32", "xnnpack:fp32"])
def test_cells_of_one_process_do_not_depend_on_their_order(target: str) -> None:
    code = (
        "import json; from harness.model.tests.test_exporter import before_and_after; "
        f"print(json.dumps(before_and_after({target!r})))"
    )
    # In a process of its own, where no exporter has run.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for first, last in json.loads(done.stdout.splitlines()[-1]):
        assert first["status"] == "passed", first["error"]
        assert first == last
