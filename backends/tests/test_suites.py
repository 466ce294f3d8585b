"""A case's tags describe its inputs, and expected fallbacks belong to cases that exist."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_leaves

from backends.mlx import codegen
from harness import Case, Target
from harness.model import registry
from harness.model.fallbacks import read_fallbacks
from harness.session.discovery import load_suites
from suites.build import Input, bools, full, ints, op, randn, uniform, values, zeros

SUITES = Path(__file__).resolve().parents[2] / "suites"
F16, BF16, I32 = torch.float16, torch.bfloat16, torch.int32


@pytest.mark.parametrize(
    ("spec", "finite"),
    [
        (full(-math.inf, 2, 3), False),
        (full(math.nan, 2, 3), False),
        (full(1.5, 2, 3), True),
        (full(65504.0, 3, dtype=F16), True),
        (full(65536.0, 3, dtype=F16), False),
        (full(65536.0, 3, dtype=BF16), True),
        (full(7, 3, dtype=I32), True),
        (full(True, 3, dtype=torch.bool), True),
        (zeros(3), True),
        (values((1.0, math.nan), 4), False),
        (values((1.0, 70000.0), 4, dtype=F16), False),
        (values((1.0, 70000.0), 4, dtype=BF16), True),
        (values((1.0, 1e39), 4), False),
        (values((1, -5), 4, dtype=I32), True),
        (uniform(-1e5, 1e5, 64, dtype=F16), False),
        (uniform(-1e5, 1e5, 64), True),
        (ints(60000, 80000, 64, dtype=F16), False),
        (ints(0, 9, 64, dtype=F16), True),
        (randn(3), True),
        (bools(3), True),
    ],
    ids=lambda item: "" if isinstance(item, Input) else str(item),
)
def test_inputs_that_are_not_finite_are_tagged(spec: Input, finite: bool) -> None:
    torch.manual_seed(0)
    assert bool(spec.make().isfinite().all()) is finite
    assert ("nonfinite" not in op("abs/some", torch.abs, spec).tags) is finite


def test_later_calls_count() -> None:
    def case(later: Input) -> Case:
        return op("abs/some", torch.abs, randn(2, 4), calls=[[later]])

    assert "nonfinite" in case(full(math.inf, 2, 4)).tags
    assert "noncontiguous" in case(randn(2, 4).transposed()).tags
    assert "empty" in case(randn(0, 4)).tags
    assert case(randn(2, 4)).tags == {"ops", "fp32"}


def test_inputs_with_infinite_extremes_get_the_tag_nonfinite() -> None:
    spec = Input((2,), lambda size: torch.full(size, math.inf), extremes=(math.inf,))
    assert "nonfinite" in op("abs/some", torch.abs, spec).tags


@pytest.mark.nightly
def test_the_tags_of_all_cases_are_true() -> None:
    codegen.install()  # some modules of suites/mlx are upstream's
    untrue = []
    for case in (case for suite in load_suites(SUITES) for case in suite.cases):
        if "ops" not in case.tags:
            continue
        leaves = tree_leaves(case.make().calls)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        facts = {
            "nonfinite": any(not tensor.isfinite().all() for tensor in tensors),
            "empty": any(tensor.numel() == 0 for tensor in tensors),
        }
        untrue += [(case.name, tag) for tag, fact in facts.items() if fact != (tag in case.tags)]
    assert not untrue


def test_expected_fallbacks_belong_to_cases_and_targets_that_exist() -> None:
    codegen.install()  # some modules of suites/mlx are upstream's
    cases: dict[Path, set[str]] = {}
    for suite in load_suites(SUITES):
        cases.setdefault(suite.path.parent, set()).update(case.name for case in suite.cases)
    files = {path.parent for path in SUITES.rglob("fallbacks.json")}
    assert len(files) > 10
    assert files <= cases.keys()
    for folder in files:
        for target, listed in read_fallbacks(folder).items():
            assert registry.recipe(Target.parse(target))
            assert not listed.keys() - cases[folder], (folder, target)
