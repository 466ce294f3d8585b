"""The summary is shown in the terminal, on a page, and by the dashboard where a run has one."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from harness.coverage.summary import (
    SUMMARY_FILE,
    CoverageSummary,
    ExecutedBy,
    FileCoverage,
    FunctionCoverage,
    write_summary,
)
from harness.errors import UsageError
from reports import text
from reports.coverage import page, terminal
from reports.site.build import write as write_site
from reports.tests.runs import cell, write

HALF = FunctionCoverage(
    name="Visitor.define<b>", line=10, end=19, lines=8,
    missing={ExecutedBy.VACUOUS: [12], ExecutedBy.NEVER: [14, 15, 16, 19]},
    branches=4, missing_branches=[(11, 14), (14, 15), (12, -10)],
)  # fmt: skip
NEVER = FunctionCoverage(
    name="unused", line=30, end=33, lines=2, missing={ExecutedBy.NEVER: [31, 33]}
)
WHOLE = FunctionCoverage(name="used", line=1, end=2, lines=1)
SUMMARY = CoverageSummary(
    cells={ExecutedBy.CONCLUSIVE: 1200, ExecutedBy.NOT_PASSED: 3},
    packages={"executorch": "1.5.1"},
    files=[
        FileCoverage(name="executorch/backends/x/op.py", area="x", functions=[WHOLE, HALF]),
        FileCoverage(name="executorch/backends/x/whole.py", area="x", functions=[WHOLE]),
        FileCoverage(name="executorch/exir/dead.py", area="exir", functions=[NEVER]),
    ],
)


def show(area: str = "", pattern: str = "", limit: int = 0) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100)
    terminal.render(SUMMARY, console, area=area, pattern=pattern, limit=limit)
    return out.getvalue()


def test_the_terminal_shows_areas_and_the_worst_files() -> None:
    text = show()
    assert "1,203 cells: 1,200 conclusive, 0 vacuous, 3 not passed. executorch 1.5.1." in text
    (x,) = [line.split() for line in text.splitlines() if line.strip().startswith("x ")]
    assert x == ["x", "3", "100%", "0", "0", "0", "0", "50%", "25%"]
    assert text.index("op.py") < text.index("dead.py")
    assert "never executed: unused" in text
    assert "whole.py" not in text
    assert "and 1 more file;" in show(limit=1)
    assert "dead.py" not in show(area="x")


def test_functions_of_files_have_their_lines_and_branches() -> None:
    text = show(pattern="op.py")
    assert "vacuous only: 12; never: 14-16, 19; branches never taken: 11→14" in text
    assert "14→15" not in text, "a branch of a line that is not executed"
    assert "unused: never: all lines" in show(pattern="*/dead.py")
    for wrong in ({"area": "absent"}, {"pattern": "absent"}):
        with pytest.raises(UsageError):
            show(**wrong)


def test_lines_are_ranges() -> None:
    assert text.number_ranges([]) == ""
    assert text.number_ranges([9, 1, 2, 3, 7]) == "1-3, 7, 9"


def test_the_page_escapes_and_has_all_files() -> None:
    text = page.render(SUMMARY, title="run <1>", back="../index.html")
    assert "run &lt;1&gt;" in text
    assert "Visitor.define&lt;b&gt;" in text
    assert 'href="../index.html"' in text
    assert "<script" not in text
    assert "dead.py" in text
    assert "whole.py" not in text


def test_the_dashboard_links_the_newest_summary(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one"
    write(run, [cell("a", "x:y")])
    site = tmp_path / "site"
    assert "coverage.html" not in write_site(site, [run]).index.read_text()
    write_summary(run, SUMMARY)
    index = write_site(site, [run]).index.read_text()
    (found,) = site.glob("data-*/coverage.html")
    assert f'href="{found.relative_to(site)}"' in index
    (run / SUMMARY_FILE).write_bytes(msgspec.json.encode({"version": 99}))
    made = write_site(site, [run])
    assert "version 99" in made.remarks[0]
    assert not list(site.glob("data-*/coverage.html"))
