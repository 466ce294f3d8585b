"""The search for modules to leave in float."""

from __future__ import annotations

from collections.abc import Sequence

from harness.pipeline.quantization.attribution import find_modules

GAINS = {"a": 5.0, "a.b": 4.0, "c": 3.0, "d": 1.0}


def measure(names: Sequence[str]) -> float:
    return 10.0 + sum(GAINS[name] for name in names)


def test_as_few_modules_as_reach_it() -> None:
    assert find_modules(list(GAINS), 10.0, measure) == ([], 10.0)
    assert find_modules(list(GAINS), 14.0, measure) == (["a"], 15.0)


def test_a_module_inside_of_another_is_not_named() -> None:
    assert find_modules(list(GAINS), 21.5, measure) == (["a", "c"], 22.0)
    assert find_modules(list(GAINS), 99.0, measure) == (["a", "c", "d"], 23.0)
