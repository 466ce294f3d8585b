"""A fault planted in the interpreter turns a cell red, for every node type."""

from __future__ import annotations

import pytest

from backends.mlx.payload import schema
from backends.mlx.tests.catchers import CATCHERS
from backends.mlx.tests.planting import RECIPES, ROOT, cases_in, cells_of, plant_all

SHARE = 0.98
PARTS = 12
# The plain run plants one part of the kinds, the nightly run all.
BY_DAY = 1

# Executed from hand-assembled graphs (test_assembled.py, test_metal_kernel.py): no module
# lowers to them.
NOT_IN_SUITES = {"NoopNode", "MedianNode", "TriNode", "RandomBitsNode", "MetalKernelNode"}


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=pytest.mark.nightly if part >= BY_DAY else ())
        for part in range(PARTS)
    ],
)
def test_planted_faults_are_caught(part: int) -> None:
    kinds = frozenset(sorted(CATCHERS)[part::PARTS])
    wanted = {name for kind in kinds for name in CATCHERS[kind].split()}
    cases = [case for case in cases_in([ROOT / "suites"]) if case.name in wanted]
    assert len(cases) == len(wanted), "a case was renamed or removed: run planting.py again"
    outcome = plant_all(cells_of(cases, RECIPES), kinds=kinds)
    print(outcome)
    assert outcome.kinds == kinds
    assert outcome.share >= SHARE, str(outcome)


def test_the_table_knows_every_node_type() -> None:
    assert CATCHERS.keys() | NOT_IN_SUITES == set(schema.load().nodes)
