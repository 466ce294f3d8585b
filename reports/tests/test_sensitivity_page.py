"""The table and the page of the smallest errors that turn a cell red."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import ConformError
from reports import sensitivity
from reports.sensitivity import KINDS, SmallestError
from reports.site import build
from reports.tests.runs import cell, write

WEIGHTS, _, BIAS, *_ = KINDS
FOUND = [
    SmallestError("linear", "xnnpack:int8", "first", WEIGHTS, 0.03125),
    SmallestError("linear", "xnnpack:int8", "middle", WEIGHTS, 0.00012),
    SmallestError("linear", "xnnpack:int8", "last", WEIGHTS, None),
    SmallestError("conv<b>", "tosa:int", "last", BIAS, 2.0),
]


def test_rows_have_the_median_and_the_worst() -> None:
    rows = sensitivity.build_rows(FOUND)
    assert rows == {
        "xnnpack:int8": [("0.031", "none"), None, None, None, None],
        "tosa:int": [None, None, ("2", "2"), None, None],
    }
    assert "| `tosa:int` | – | – | 2, 2 | – | – |" in sensitivity.format_table(rows)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert sensitivity.read(tmp_path) == []
    sensitivity.write(tmp_path, FOUND)
    assert sensitivity.read(tmp_path) == FOUND
    (tmp_path / sensitivity.FILE).write_text("{")
    with pytest.raises(ConformError, match=r"sensitivity\.json: "):
        sensitivity.read(tmp_path)


def test_the_dashboard_has_the_page_of_a_run_with_figures(tmp_path: Path) -> None:
    write(tmp_path / "run", [cell("linear", "tosa:int")])
    plain = build.write(tmp_path / "plain", [tmp_path / "run"])
    assert "Sensitivity" not in plain.index.read_text()
    sensitivity.write(tmp_path / "run", FOUND)
    site = build.write(tmp_path / "site", [tmp_path / "run"])
    (page,) = (tmp_path / "site").glob("data-*/sensitivity.html")
    assert f"{page.parent.name}/sensitivity.html" in site.index.read_text()
    content = page.read_text()
    assert "<td>0.031<br>" in content
    assert "conv&lt;b&gt;" in content
