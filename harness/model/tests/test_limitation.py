"""Limitations are strict: they predict how a cell fails, and are wrong when it does not."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from harness import Case, Limitation, Target
from harness.errors import LimitationError
from harness.model.limitation import apply_limitation, find_closed, find_limitation, find_unmatched
from harness.record.cell import Cell, Status

CASE = Case("add/int", lambda: (torch.nn.Identity(), (torch.ones(1),)), tags=frozenset({"int32"}))
TARGET = Target("x", "fp32")


def failed(stage: str = "lower", error: str = "no kernel") -> Cell:
    return Cell(case="add/int", target="x:fp32", status=Status.FAILED, stage=stage, error=error)


def entry(**changes: object) -> Limitation:
    fields: dict[str, object] = {"target": "x:*", "case": "add/*", "reason": "no integer kernels"}
    return Limitation(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "matches"),
    [
        ({}, True),
        ({"target": "y:*|x:fp32"}, True),
        ({"target": "y:*"}, False),
        ({"case": "sub/*|add/int"}, True),
        ({"case": "add"}, False),
        ({"op": "add"}, True),
        ({"op": "sub"}, False),
        ({"tag": "int32"}, True),
        ({"tag": "fp32"}, False),
    ],
)
def test_an_entry_applies_to_its_cases_and_targets(
    changes: dict[str, object], matches: bool
) -> None:
    limitation = entry(**changes)
    assert limitation.matches(CASE, TARGET) is matches
    assert (find_limitation([limitation], CASE, TARGET) is limitation) is matches
    assert bool(find_unmatched([limitation], [CASE], [TARGET])) is not matches


def test_a_predicted_failure_is_explained() -> None:
    cell = apply_limitation(
        failed(), entry(stage="lower", error="kernel", link="https://example.org/1")
    )
    assert cell.status is Status.XFAILED
    assert cell.limitation is not None
    assert cell.limitation.reason == "no integer kernels"
    assert (
        apply_limitation(failed(), entry(shown_as=Status.UNSUPPORTED)).status is Status.UNSUPPORTED
    )


@pytest.mark.parametrize(
    "changes", [{"stage": "run"}, {"error": "other"}, {"outcome": Status.MISMATCH}]
)
def test_another_failure_than_predicted_stays_red(changes: dict[str, object]) -> None:
    assert apply_limitation(failed(), entry(**changes)).status is Status.FAILED


def test_one_defect_may_fail_in_several_ways() -> None:
    both = entry(stage="run", error="0x1", or_fails=(("lower", "kernel"),))
    assert apply_limitation(failed(), both).status is Status.XFAILED
    assert apply_limitation(failed(stage="run", error="error 0x1"), both).status is Status.XFAILED
    assert apply_limitation(failed(stage="run"), both).status is Status.FAILED


def test_an_unexpected_pass_is_red() -> None:
    cell = apply_limitation(Cell(case="add/int", target="x:fp32", status=Status.PASSED), entry())
    assert cell.status is Status.XPASSED
    assert cell.status.is_red


@pytest.mark.parametrize(("seed", "status"), [(0, Status.XPASSED), (1, Status.PASSED)])
def test_an_entry_of_one_seed_lets_the_others_pass(seed: int, status: Status) -> None:
    passed = Cell(case="add/int", target="x:fp32", status=Status.PASSED, seed=seed)
    assert apply_limitation(passed, entry(seed=0)).status is status
    assert apply_limitation(failed(), entry(seed=0)).status is Status.XFAILED


@pytest.mark.parametrize(
    "changes", [{"reason": " "}, {"outcome": Status.PASSED}, {"shown_as": Status.PASSED}]
)
def test_malformed_entries_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(LimitationError):
        entry(**changes)


@pytest.mark.parametrize(
    ("host", "vectors", "speaks"),
    [
        ("*", "x86_64/avx2", True),
        ("x86_64/*", "x86_64/avx2", True),
        ("x86_64/avx|x86_64/avx2", "x86_64/avx2", True),
        ("x86_64/avx2", "x86_64/avx512f", False),
        ("x86_64/*", "aarch64/asimd", False),
    ],
)
def test_an_entry_of_other_hosts_does_not_apply_here(
    host: str, vectors: str, speaks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.model.limitation.describe_vectors", lambda: vectors)
    limitation = entry(host=host)
    assert (find_limitation([limitation], CASE, TARGET) is limitation) is speaks
    # It has cells, elsewhere.
    assert find_unmatched([limitation], [CASE], [TARGET]) == []


@pytest.mark.parametrize(
    ("release", "speaks"), [("1.4.1", False), ("1.5.0", True), ("1.5.9", True), ("1.6.0a0", False)]
)
def test_an_entry_of_other_releases_does_not_apply_here(
    release: str, speaks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "harness.vendors.versions.installed_version", lambda package="executorch": release
    )
    limitation = entry(since="1.5.0", until="1.6.0")
    assert (find_limitation([limitation], CASE, TARGET) is limitation) is speaks
    assert find_unmatched([limitation], [CASE], [TARGET]) == []


def test_an_entry_is_closed_if_no_supported_release_has_its_defect() -> None:
    gone, open_ = entry(until="1.4.1"), entry(until="1.5.0")
    assert find_closed([gone, open_, entry()], "1.4.1") == [gone]
    with pytest.raises(LimitationError, match="there is no release since"):
        entry(since="1.5.0", until="1.5.0")


def test_the_document_shows_every_field() -> None:
    """docs/contributing/case.md refers to the docstring."""
    for field in dataclasses.fields(Limitation):
        assert f"        {field.name}: " in (Limitation.__doc__ or "")
