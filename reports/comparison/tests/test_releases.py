"""Comparisons of releases, in all formats."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.errors import UsageError
from harness.record.cell import Delegation, LimitationRef, Status
from harness.record.host import Environment
from harness.record.run import Run
from reports.comparison.releases import (
    compare_releases,
    find_release,
    markdown,
    page,
    plain,
    terminal,
)
from reports.tests.runs import cell, numerics, write

LEFT = {"undelegated_ops": {"aten.relu.default": 1}, "undelegated_nodes": 1}
LESS = Delegation(delegates=1, delegated_nodes=1, delegated_ops={"aten.add.Tensor": 1}, **LEFT)


def place(release: str, host: str = "here") -> Environment:
    packages = {"executorch": release} if release else {}
    return Environment(host=host, machine="x86_64", packages=packages)


def two(folder: Path, host: str = "here") -> list[Run]:
    """One cell each that is newly passing, newly failing, worse, better and unchanged."""
    failed: dict[str, Any] = {"status": Status.FAILED, "stage": "lower", "error": "no <addmm>"}
    gap = {"status": Status.XFAILED, "limitation": LimitationRef(reason="a known gap")}
    old = [
        cell("addmm/plain", "metal:fp32", **failed),
        cell("amin/int", "tosa:fp"),
        cell("mul/a", "tosa:fp", program_bytes=1000),
        cell("mul/b", "tosa:fp", numerics=[numerics(sqnr_db=60.0)]),
        cell("sub/a", "tosa:fp", delegation=LESS, stages={"lower": 0.1}),
        cell("sub/b", "tosa:fp", stages={"lower": 0.001}),
    ]
    new = [
        cell("addmm/plain", "metal:fp32"),
        cell("amin/int", "tosa:fp", **gap),
        cell("mul/a", "tosa:fp", program_bytes=1500),
        cell("mul/b", "tosa:fp"),
        cell("sub/a", "tosa:fp", stages={"lower": 0.2}),
        cell("sub/b", "tosa:fp", stages={"lower": 9.0}),
        cell("sub/new", "tosa:fp"),
    ]
    return [
        write(folder / "old", old, environment=place("1.5.0")),
        write(folder / "new", new, environment=place("1.5.1", host)),
    ]


def test_a_step_counts_gained_and_lost_cells_by_backend(tmp_path: Path) -> None:
    [step] = compare_releases(two(tmp_path))
    assert (step.before, step.after) == ("1.5.0", "1.5.1")
    assert [now.case for _, now in step.gained] == ["addmm/plain"]
    assert [now.case for _, now in step.lost] == ["amin/int"]
    rows = {row.backend: row for row in step.rows}
    assert (rows["metal"].gained, rows["metal"].lost, rows["metal"].compared) == (1, 0, 1)
    tosa = rows["tosa"]
    assert (tosa.gained, tosa.lost, tosa.compared, tosa.passing) == (0, 1, 5, (5, 4))
    assert tosa.numerics == (0, 1)
    assert tosa.delegation == (0, 1)
    assert tosa.bytes[1] - tosa.bytes[0] == 500
    assert tosa.lowering is not None
    assert 1 <= tosa.lowering <= 2  # A cell that takes a millisecond is not compared.


def test_times_of_other_hosts_are_not_compared(tmp_path: Path) -> None:
    [step] = compare_releases(two(tmp_path, host="there"))
    assert all(row.lowering is None for row in step.rows)


def test_three_releases_are_two_steps(tmp_path: Path) -> None:
    first, second = two(tmp_path)
    found = compare_releases([first, second, first], ["a", "b", "c"])
    assert [(step.before, step.after) for step in found] == [("a", "b"), ("b", "c")]
    assert [now.case for _, now in found[1].lost] == ["addmm/plain"]


def test_all_formats_agree(tmp_path: Path) -> None:
    found = compare_releases(two(tmp_path))
    out = Console(file=io.StringIO(), width=160)
    terminal.render(found, out)
    shown = out.file.getvalue()  # type: ignore[attr-defined]
    texts = (shown, markdown.render(found), page.render(found), plain.render(found))
    for text in texts:
        assert "addmm/plain" in text
        assert "a known gap" in text
    assert "<addmm>" not in texts[2]  # texts of records act nowhere
    [step] = json.loads(texts[3])
    assert {change["kind"] for change in step["better"]} >= {"numerics better", "delegation gained"}
    assert {change["kind"] for change in step["worse"]} == {"bytes up"}
    assert "delegation gained" in texts[1]
    assert "1 newly passing, 1 newly failing" in shown


def test_releases_that_cannot_be_compared(tmp_path: Path) -> None:
    first, _ = two(tmp_path)
    with pytest.raises(UsageError, match="name two or more runs"):
        compare_releases([first])
    nameless = write(tmp_path / "nameless", [cell()], environment=place(""))
    with pytest.raises(UsageError, match="does not record its version of executorch"):
        find_release(nameless)
