"""Upstream's code for several delegates, altered as in past defects, turns a case red."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import pytest
from executorch.backends.aoti import aoti_backend
from executorch.exir.backend.canonical_partitioners.group_partitioner import GroupBasedPartitioner

from backends.metal.generation import generate
from harness import Cell, Status, run_cell
from suites.delegates.programs import CASES

_BY_NAME = {case.name: case for case in CASES}


def run(name: str, target: str) -> Cell:
    return run_cell(_BY_NAME[f"delegates/{name}"], target)


def test_merged_partitions_that_make_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupBasedPartitioner, "_can_merge_partitions", lambda *_: True)
    cell = run("interleaved", "xnnpack:fp32")
    assert cell.status.is_red
    assert cell.stage == "lower"


def test_two_payloads_with_one_data_key(monkeypatch: pytest.MonkeyPatch) -> None:
    one = SimpleNamespace(sha256=lambda data: hashlib.sha256(b"one"))
    monkeypatch.setattr(aoti_backend, "hashlib", one)
    # The cache is keyed by upstream's files, which this test does not change.
    monkeypatch.setattr(generate, "is_sped_up", lambda: False)
    assert run("chain", "xnnpack:fp32/metal:fp32").status.is_red


def test_the_record_shows_what_a_second_backend_takes() -> None:
    both = run("between", "xnnpack:fp32/mlx:fp32")
    alone = run("between", "xnnpack:fp32")
    assert both.status is alone.status is Status.PASSED
    assert both.delegation.delegates == 3
    assert alone.delegation.delegates == 2
    assert both.delegation.undelegated_nodes == 0 < alone.delegation.undelegated_nodes
