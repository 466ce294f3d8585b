"""Claims and cells make a table: in the terminal, as a page, as Markdown and as data."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from harness.cli.coverage.coverage import coverage
from harness.coverage.claims import TargetClaims, read_claims, write_claims
from harness.record.cell import Cell, Delegation, Status
from harness.record.program_data import Divergence, OperatorCall, OperatorClaim
from harness.record.run import Run
from reports import text
from reports.site.build import write as write_site
from reports.support import markdown, page, terminal, views, words
from reports.support.views import CallSignature, OperatorRow, Support, SupportTable
from reports.tests.runs import cell, numerics, write

CORE = {
    "aten.abs.default": ["aten.abs.default", "aten.abs_.default"],
    "aten.view.default": ["aten.view.default", "aten.view_copy.default"],
    **{f"aten.{name}.default": [f"aten.{name}.default"]
       for name in ("cos", "erf", "exp", "log", "sin", "sqrt")},
}  # fmt: skip
CLAIMS = TargetClaims(
    target="xnnpack:fp32",
    packages={"executorch": "1.5.1"},
    operators={
        "aten.abs.default": OperatorClaim(dtypes=("float32",), quantized=True, source="AbsConfig"),
        **{f"aten.{name}.default": OperatorClaim() for name in ("view_copy", "cos", "sin", "exp")},
        "aten.silu.default": OperatorClaim(),
    },
    core=CORE,
)


def call(op: str, **fields: Any) -> OperatorCall:
    given = {"delegated": True, "dtype": "float32", "rank": 2, **fields}
    return OperatorCall(op=f"aten.{op}.default", **given)


def lowered(case: str, *calls: OperatorCall, **fields: Any) -> Cell:
    return cell(case, **{"delegation": Delegation(delegates=1, calls=list(calls)), **fields})


def build(cells: list[Cell], path: Path, claims: TargetClaims = CLAIMS) -> SupportTable:
    run = write(path, cells)
    write_claims(path, claims)
    (table,) = views.build_tables(run, read_claims(path))
    return table


def find(table: SupportTable, op: str) -> OperatorRow:
    (row,) = [row for row in table.rows if row.op == f"aten.{op}.default"]
    return row


VACUOUS = {"numerics": [numerics(conclusive_share=0.0)]}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([], Support.UNTESTED),
        ([lowered("sin/a", call("sin"))], Support.YES),
        ([lowered("sin/a", call("sin"), **VACUOUS)], Support.UNPROVEN),
        ([lowered("sin/a", call("sin", delegated=False))], Support.NO),
        ([lowered("sin/a", call("sin"), status=Status.LOWERED)], Support.UNPROVEN),
        ([lowered("sin/a", call("sin"), status=Status.XFAILED)], Support.FAILS),
        ([lowered("sin/a", call("sin"), status=Status.MISMATCH)], Support.FAILS),
        # The failure is that of another operator.
        ([lowered("net/a", call("sin"), call("exp"), status=Status.XFAILED)], Support.UNPROVEN),
        ([lowered("sin/a", call("sin"), call("exp"), status=Status.XFAILED,
                  first_divergence=Divergence(node="exp", op="aten.exp.default"))],
         Support.UNPROVEN),
        ([lowered("net/a", call("sin"), call("exp"), status=Status.MISMATCH,
                  first_divergence=Divergence(node="sin", op="aten.sin.default"))],
         Support.FAILS),
        # Another argument or value fails although the signature is the same.
        ([lowered("sin/a", call("sin")), lowered("sin/b", call("sin"), status=Status.XFAILED)],
         Support.PARTLY),
        ([lowered("sin/a", call("sin")), lowered("sin/b", call("sin", rank=3, delegated=False))],
         Support.YES),
        ([lowered("sin/a", call("sin"), **VACUOUS), lowered("sin/b", call("sin"))], Support.YES),
    ],
)  # fmt: skip
def test_cells_decide_what_is_shown_of_an_operator(
    cells: list[Cell], expected: Support, tmp_path: Path
) -> None:
    other = lowered("cos/a", call("cos"))
    assert find(build([other, *cells], tmp_path), "sin").support is expected


CELLS = [
    lowered("abs/a", call("abs"), call("abs_", rank=4, layout="channels_last")),
    lowered("abs/b", call("abs", dtype="int32", delegated=False), call("view_copy")),
    lowered("abs/c", call("abs", dtype="float16", dynamic=True, quantized=True)),
    lowered("erf/a", call("erf")),
    lowered("log/a", call("log", delegated=False)),
    lowered("sin/a", call("sin", delegated=False)),
    lowered("sqrt/a", call("sqrt"), call("silu_"), status=Status.XFAILED),
    lowered("cos/a", call("cos"), target="xnnpack:fp32+lift"),
    lowered("cos/a", call("cos"), target="metal:fp32/xnnpack:fp32"),
]


@pytest.fixture
def table(tmp_path: Path) -> SupportTable:
    return build(CELLS, tmp_path)


def test_spellings_of_a_core_operator_are_one_row(table: SupportTable, tmp_path: Path) -> None:
    assert find(table, "abs").select(views.Evidence.PASSED) == [
        CallSignature("float16", 2, "contiguous", True, True),
        CallSignature("float32", 2, "contiguous", False, False),
        CallSignature("float32", 4, "channels_last", False, False),
    ]
    assert find(table, "view").support is Support.YES
    assert find(table, "view").claim is not None
    assert not find(table, "silu").is_core
    assert find(build([lowered("a/a", call("__or__"))], tmp_path / "or"), "__or__").is_delegated
    assert [row.op for row in table.rows][:2] == ["aten.abs.default", "aten.cos.default"]


def test_variations_and_programs_of_several_delegates_are_left_out(table: SupportTable) -> None:
    assert find(table, "cos").support is Support.UNTESTED


def test_claims_and_cells_that_contradict_each_other_are_listed(table: SupportTable) -> None:
    assert [row.op for row in table.gaps] == ["aten.sin.default"]
    assert [row.op for row in table.untested] == ["aten.cos.default", "aten.exp.default"]
    assert [row.op for row in table.unclaimed] == ["aten.erf.default", "aten.sqrt.default"]
    assert words.describe_table(table) == (
        "8 core ATen operators: 3 yes, 1 fails, 2 no, 2 untested."
    )


def test_a_row_in_words(table: SupportTable) -> None:
    assert words.describe_row(find(table, "abs")) == (
        "passed: float16 rank 2 (dynamic, quantized); float32 rank 2, 4 (channels_last)"
        " · never delegated: int32 rank 2"
    )
    assert words.describe_claim(find(table, "abs").claim) == "float32, quantized"
    assert words.describe_claim(find(table, "sin").claim) == "yes"
    assert words.describe_claim(None) == ""
    assert text.number_ranges([4, 0, 1, 2]) == "0-2, 4"


def test_a_gap_has_the_partitioners_reason(tmp_path: Path) -> None:
    reasons = {"aten.sin.default": {"rank | 5": 1, "dtype": 2}, "aten.log.default": {"none": 1}}
    calls = [call("sin", delegated=False), call("log", delegated=False)]
    cells = [lowered("a/a", delegation=Delegation(calls=calls, reasons=reasons))]
    found = build(cells, tmp_path)
    assert words.describe_row(find(found, "sin")).endswith("· reason: dtype")
    assert "reason" not in words.describe_row(find(found, "log")), "it is not claimed"
    cells.append(lowered("a/b", delegation=Delegation(
        calls=calls, reasons={"aten.sin.default": {"rank | 5": 9}})))  # fmt: skip
    assert "reason: rank \\| 5 |" in markdown.render([build(cells, tmp_path / "more")])


def test_kernels_take_the_calls_that_no_delegate_takes(tmp_path: Path) -> None:
    claims = TargetClaims(
        target="xnnpack:fp32", kernels=True, operators={"aten.sin.default": OperatorClaim()},
        core=CORE,
    )  # fmt: skip
    calls = [call("sin", delegated=False), call("erf", delegated=False)]
    found = build([lowered("sin/a", *calls)], tmp_path, claims)
    assert find(found, "sin").support is Support.YES
    assert find(found, "erf").support is Support.NO, "there is no kernel"


def test_unknown_claims_are_no_gaps(tmp_path: Path) -> None:
    claims = TargetClaims(target="xnnpack:fp32", problem="no <registry>", core=CORE)
    found = build(CELLS, tmp_path, claims)
    assert found.gaps == found.unclaimed == found.untested == []
    assert words.describe_table(found).endswith("its claims are not known (no <registry>).")
    assert "no &lt;registry&gt;" in page.render([found], title="run")


def test_the_terminal_and_markdown_have_all_rows(table: SupportTable) -> None:
    out = io.StringIO()
    terminal.render([table], Console(file=out, width=200), full=True)
    text = out.getvalue()
    (row,) = [line for line in text.splitlines() if line.strip().startswith("aten.abs.default")]
    assert row.split()[:4] == ["aten.abs.default", "yes", "float32,", "quantized"]
    assert "delegated, not claimed: aten.erf.default, aten.sqrt.default" in text
    assert "aten.silu.default (not core)" in text
    written = markdown.render([table])
    assert "| `aten.sin.default` | yes | no | yes | never delegated: float32 rank 2 |" in written
    assert "Claims of executorch 1.5.1." in written


def test_the_page_has_a_field_for_each_target_and_details(table: SupportTable) -> None:
    twin = SupportTable("a:fp32", None, [OperatorRow(name, is_core=True) for name in CORE])
    text = page.render([twin, table], title="run <1>", back="../index.html")
    assert "run &lt;1&gt;" in text
    assert '<th scope="col"><a href="#a:fp32">a:fp32</a></th>' in text
    assert 'class="s-no s-claimed" title="aten.sin.default on xnnpack:fp32: never' in text
    assert text.count('id="aten.abs.default"') == 1
    assert "by AbsConfig" in text
    failing = "../index.html#/cell?id=sqrt/a%40xnnpack%3Afp32&amp;run=run%20%3C1%3E"
    assert f'href="{failing}" title="sqrt/a@xnnpack:fp32">xfailed</a>' in text
    first, last = (text.index(f">{name}</a></th>") for name in ("xnnpack:fp32", "a:fp32"))
    assert first < last, "the target whose operators cells call comes first"
    assert "href" not in page.render([table], title="run").partition("sqrt/a@")[0][-60:]
    assert "<script" not in text


def test_a_dashboard_has_the_page_of_a_run_with_claims(tmp_path: Path, table: SupportTable) -> None:
    site = tmp_path / "site"
    write_site(site, [write_run(tmp_path / "runs" / "new").path])
    (found,) = site.glob("data-*/support.html")
    assert "aten.abs.default" in found.read_text()
    assert "Operators" in (site / "index.html").read_text()
    write_site(site, [write(tmp_path / "runs" / "old", CELLS).path])
    assert not list(site.glob("data-*/support.html"))


def write_run(path: Path) -> Run:
    run = write(path, CELLS)
    write_claims(path, CLAIMS)
    return run


def test_the_command_writes_and_checks_a_page(tmp_path: Path) -> None:
    run, written = str(write_run(tmp_path / "run").path), tmp_path / "page.md"
    invoke = CliRunner().invoke
    assert invoke(coverage, ["support", run, "--write", str(written)]).exit_code == 0
    assert invoke(coverage, ["support", run, "--check", str(written)]).exit_code == 0
    written.write_text(written.read_text().replace("`aten.abs.default` | yes | yes", "stale"))
    result = invoke(coverage, ["support", run, "--check", str(written)])
    assert result.exit_code == 1
    assert "-| stale" in result.output
    data = json.loads(invoke(coverage, ["support", run, "--json", "-"]).output)
    (row,) = [row for row in data[0]["operators"] if row["op"] == "aten.abs.default"]
    assert row["shown"] == "yes"
    assert row["claim"]["dtypes"] == ["float32"]
    assert {"dtype": "float32", "rank": 2, "layout": "contiguous", "dynamic": False,
            "quantized": False, "passed": 1} in row["calls"]  # fmt: skip
    assert "aten.abs" in invoke(coverage, ["support", run, "--target", "xnnpack"]).output
    assert invoke(coverage, ["support", run, "--target", "mlx"]).exit_code != 0


def test_a_run_with_claims_is_read_without_torch(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run").path
    code = (
        "import sys; from harness.cli import main; sys.argv = ['conform', 'coverage', 'support', "
        f"{str(run)!r}]\ntry: main()\nexcept SystemExit as end: assert not end.code\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
