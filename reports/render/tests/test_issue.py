"""The text of an issue has the facts that a maintainer of a backend asks for first."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.record.cell import Delegation, Status
from harness.record.host import Environment
from reports import facts
from reports.outcome import CellOutcome
from reports.render.issue import issue_text
from reports.render.views import Texts, cell_view
from reports.summary import RunSummary
from reports.tests.runs import cell, numerics, write

HERE = Environment(
    python="3.11.7", platform="Linux 6", machine="x86_64", git_commit="a" * 40,
    git_home="https://github.com/who/what", packages={"torch": "2.13.0", "executorch": "1.5.1"},
)  # fmt: skip


def wrong() -> object:
    off = numerics(
        max_abs=0.5, bound=1e-6, bound_used=5e5, exceeding=3, elements=12,
        worst_index=[0, 3], worst_actual=1.5, worst_expected=1.0,
    )  # fmt: skip
    return cell(
        "gelu/tanh", status=Status.MISMATCH, stage="compare", error="3 of 12 elements exceed",
        numerics=[numerics(), off], traceback="Traceback\n" + "  line\n" * 100 + "Error: ```x",
        suite="suites.ops.activation", source="suites/ops/activation.py:46",
        saved_to="kept/gelu_tanh-1",
    )  # fmt: skip


def test_an_issue_has_its_summary_numbers_versions_and_commands(tmp_path: Path) -> None:
    run = write(tmp_path / "run", [wrong()], environment=HERE)
    told = issue_text(run.cells[0], CellOutcome.from_cell(run.cells[0]), run.info)
    assert told.startswith("### gelu/tanh@xnnpack:fp32: mismatch in stage compare\n")
    assert "| call 0, output 0 | [0, 3] | 1.5 | 1 | 0.5 | 1e-06 | 3 of 12 |" in told
    assert told.count("| call") == 1  # Conforming outputs are not part of it.
    assert "conform repro gelu/tanh@xnnpack:fp32 --seed 0 --script show.py" in told
    assert "executorch 1.5.1, torch 2.13.0, Python 3.11.7, Linux 6, x86_64, native runtime" in told
    assert told.count("```") % 2 == 0
    assert len(told) < 6_000


def test_a_page_has_it_of_red_cells_with_source_and_files(tmp_path: Path) -> None:
    run = write(tmp_path / "run", [wrong(), cell("add/a")], environment=HERE)
    texts = Texts()
    red, green = (cell_view(row, run, texts) for row in RunSummary.from_run(run).rows)
    if red["outcome"] != "mismatch":
        red, green = green, red
    assert texts.items[red["issue"]].startswith("### gelu/tanh")
    assert red["saved_to"] == "kept/gelu_tanh-1"
    link = f"https://github.com/who/what/blob/{'a' * 40}/suites/ops/activation.py#L46"
    assert red["source_href"] == link
    assert not {"issue", "saved_to", "source_href"} & green.keys()


@pytest.mark.parametrize(
    ("path", "fine"),
    [
        ("kept/linear_bias@xnnpack_fp32-a0bd8f", True),
        ("kept/0-linear@x-1", True),
        ("kept/../../etc", False),
        ("kept/..", False),
        ("/etc", False),
        ("javascript:alert(1)", False),
        ("", False),
    ],
)
def test_a_cell_folder_has_no_links_outside(path: str, fine: bool) -> None:
    assert facts.is_kept_folder(path) is fine


def test_no_delegation_is_no_line(tmp_path: Path) -> None:
    item = cell("a", status=Status.FAILED, stage="lower", error="no", numerics=[],
                delegation=Delegation(), runtime="none")  # fmt: skip
    run = write(tmp_path / "run", [item], environment=HERE)
    assert "\n- " not in issue_text(run.cells[0], CellOutcome.from_cell(run.cells[0]), run.info)
