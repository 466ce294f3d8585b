"""Report of a check of one model: a row per target, each reason once, advice for vacuous passes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.record.cell import Cell, Delegation, KnownIssueRef, Status
from harness.record.evidence import Vacuity, VacuousCause
from harness.record.program_data import Divergence
from harness.record.severity import Severity
from reports.render import check, html
from reports.tests.markup import Page
from reports.tests.runs import cell, numerics, write

LEFT = Delegation(
    delegates=2,
    delegated_nodes=4,
    undelegated_nodes=6,
    delegated_ops={"aten.mm.default": 4},
    undelegated_ops={"aten.cumsum.default": 3, "aten.sort.default": 2, "aten.erf.default": 1},
    reasons={"aten.cumsum.default": {"no kernel": 2, "too wide": 1},
             "aten.sort.default": {"no kernel": 2}},
)  # fmt: skip


KNOWN = (
    "known issue: Takes any rank, then raises (https://example.org/1); workaround: four dimensions"
)


def shown(folder: Path, cells: list[Cell], notes: tuple[str, ...] = (), **info: Any) -> str:
    run = write(folder, cells, **info)
    out = io.StringIO()
    check.render(run, notes, Console(file=out, width=80))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    return text


def test_a_row_has_the_results_of_a_target(tmp_path: Path) -> None:
    text = shown(tmp_path / "r", [cell("net", "xnnpack:fp32", delegation=LEFT)], ("x:0 varies",))
    (row,) = [line for line in text.splitlines() if "✓ passed" in line]
    for part in ("xnnpack:fp32", "native", "4/10 in 2", "2.05 kB", "140.0", "0.5×"):
        assert part in row
    assert "x:0 varies" in text
    assert "executorch 1.5.1" in text
    assert "1 of 1 cell passed" in text


def test_a_quantized_cell_shows_the_distance_to_the_float_model_as_well(tmp_path: Path) -> None:
    quantized = [numerics(model_sqnr_db=4.8), numerics(model_sqnr_db=27.7)]
    cells = [cell("net", "tosa:int", numerics=quantized), cell("net", "tosa:fp")]
    text = shown(tmp_path / "r", cells)
    lines = text.splitlines()
    (row,) = [at for at, line in enumerate(lines) if "tosa:int" in line and "passed" in line]
    assert "140.0" in lines[row]
    assert lines[row + 1].split() == ["4.8"]
    assert lines[row].index("140.0") + 5 == lines[row + 1].index("4.8") + 3  # one below the other
    assert "second against the float model (tosa:int)" in " ".join(text.split())
    assert "float model" not in shown(tmp_path / "float", [cell("net", "tosa:fp")])


def test_fallback_nodes_are_grouped_by_reason(tmp_path: Path) -> None:
    text = " ".join(shown(tmp_path / "r", [cell("net", delegation=LEFT)]).split())
    assert "xnnpack:fp32 6 nodes" in text
    assert "no kernel: aten.cumsum.default ×2, aten.sort.default ×2" in text
    assert "too wide: aten.cumsum.default ×1" in text
    assert "no reason given: aten.erf.default ×1" in text


def test_a_trace_that_was_skipped_is_offered(tmp_path: Path) -> None:
    red = cell("net", "xnnpack:fp32", status=Status.MISMATCH, stage="compare", error="wrong",
               trace_skipped="it takes 90 s to run it once",
               command="conform check net.py:build --targets xnnpack:fp32")  # fmt: skip
    text = shown(tmp_path / "r", [red])
    assert "it takes 90 s to run it once" in text
    assert "trace it with: conform check net.py:build --targets xnnpack:fp32 --trace" in " ".join(
        text.split()
    )


def test_one_reason_for_all_nodes_lists_no_operators(tmp_path: Path) -> None:
    delegation = Delegation(
        undelegated_nodes=2,
        undelegated_ops={"aten.relu.default": 1, "aten.add.Tensor": 1},
        reasons={name: {"portable delegates nothing": 1}
                 for name in ("aten.relu.default", "aten.add.Tensor")},
    )  # fmt: skip
    text = shown(tmp_path / "r", [cell("net", "portable:fp32", delegation=delegation)])
    assert "portable:fp32 2 nodes" in text
    assert "all of them: portable delegates nothing" in text
    assert "aten.relu" not in text


def test_a_reason_shared_by_targets_is_printed_once(tmp_path: Path) -> None:
    failed = {
        "status": Status.FAILED, "stage": "export", "error": "ValueError: it branches",
        "model_frame": "/somewhere/net.py:3: if x.sum() > 0:", "runtime": "none", "numerics": [],
        "delegation": Delegation(), "command": "conform check net.py:Net",
    }  # fmt: skip
    cells = [cell("net", "xnnpack:fp32", **failed), cell("net", "tosa:fp", **failed)]
    text = shown(tmp_path / "r", cells, exit_status=1)
    assert text.count("it branches") == 1
    assert "failed in stage export xnnpack:fp32, tosa:fp" in text
    assert "at /somewhere/net.py:3: if x.sum() > 0:" in text
    assert "conform check net.py:Net" in text
    assert "FAILED" in text


def vacuous(
    cause: VacuousCause, target: str = "xnnpack:fp32", constant: float | None = 0.0
) -> Cell:
    why = Vacuity(cause=cause, passing_elements=997, constant=constant)
    fine = numerics(conclusive_share=0.0)  # An older record has no reason.
    row = numerics(output=1, name="['logits']", conclusive_share=0.003, elements=1000, vacuous=why)
    return cell("net", target, numerics=[row, fine] if cause is VacuousCause.SPREAD else [row])


@pytest.mark.parametrize(
    ("cause", "target", "says", "advises"),
    [
        (VacuousCause.WIDE, "xnnpack:fp32",
         "output 1 (['logits']): 997 of 1,000 elements are within their bounds of the constant 0: "
         "its bounds are wider than its values", "conform trace --all-nodes"),
        (VacuousCause.WIDE, "mlx:bf16", "wider than its values",
         "Rounding in bf16 explains that"),
        (VacuousCause.WIDE, "tosa:int+cse", "wider than its values",
         "Rounding in int explains that"),
        (VacuousCause.SPREAD, "xnnpack:fp32", "its bounds are as wide as the spread of its values",
         "conform trace --all-nodes"),
        (VacuousCause.EQUAL, "xnnpack:fp32", "so many of the values are equal",
         "Give inputs for which"),
    ],
)  # fmt: skip
def test_a_vacuous_pass_names_the_output_the_reason_and_a_remedy(
    tmp_path: Path, cause: VacuousCause, target: str, says: str, advises: str
) -> None:
    text = " ".join(shown(tmp_path / "r", [vacuous(cause, target)], exit_status=2).split())
    assert "1 vacuous pass: no evidence" in text
    assert says in text
    assert advises in text
    # Advice that was already followed is not given again.
    assert "trained" not in text
    assert "--inputs" not in text
    assert "NOTHING PASSED" in text
    assert "FAILED" not in text
    assert "vacuous" not in shown(tmp_path / "s", [cell("net")])


def test_infinite_bounds_are_named_as_the_cause(tmp_path: Path) -> None:
    blank = vacuous(VacuousCause.INFINITE, "mlx:fp16", None)
    text = " ".join(shown(tmp_path / "r", [blank], exit_status=2).split())
    assert "the bounds of 997 of 1,000 elements are infinite" in text


def test_severities_are_shown_and_the_worst_reason_is_first(tmp_path: Path) -> None:
    def wrong(target: str, severity: Severity) -> Cell:
        return cell("net", target, status=Status.MISMATCH, stage="compare", severity=severity,
                    error=f"{target} is off", numerics=[numerics(exceeding=1, bound_used=2.0,
                    severity=severity, problem="off")])  # fmt: skip

    cells = [wrong("mlx:fp32", Severity.NEGLIGIBLE), wrong("tosa:fp", Severity.CRITICAL),
             wrong("xnnpack:fp32", Severity.MINOR)]  # fmt: skip
    text = shown(tmp_path / "r", cells, exit_status=1)
    for severity in ("negligible", "critical", "minor"):
        assert re.search(rf"≠ mismatch .*\n +{severity} ", text)
        assert f"≠ mismatch, {severity} in stage compare" in text
    places = [text.index(f"{target} is off") for target in ("tosa:fp", "xnnpack:fp32", "mlx:fp32")]
    assert places == sorted(places)
    assert "3 mismatch (1 critical, 1 minor, 1 negligible)" in text


def failed_as_known() -> Cell:
    node = Divergence(node="prelu", op="aten.prelu.default", source="net.py:9: return act(x)",
                      stage="lower", arguments=("float32[2, 8]",), fails=True)  # fmt: skip
    known = KnownIssueRef(cause="Takes any rank, then raises.", link="https://example.org/1",
                     workaround="four dimensions")  # fmt: skip
    return cell(target="xnnpack:fp32", status=Status.FAILED, stage="lower", error="AssertionError",
                first_divergence=node, vendor_frame="executorch/pass.py:3: raise AssertionError(",
                known_issues=[known])  # fmt: skip


def test_a_failure_names_its_node_the_vendors_line_and_known_issues(tmp_path: Path) -> None:
    text = " ".join(shown(tmp_path, [failed_as_known()]).split())
    assert (
        "xnnpack:fp32: prelu (aten.prelu.default), net.py:9: return act(x): fails in lower" in text
    )
    assert "raised at executorch/pass.py:3: raise AssertionError(" in text
    assert KNOWN in text
    assert "1 red cell" in text


def test_the_page_lists_known_issues_of_a_failure(tmp_path: Path) -> None:
    page = html.render(write(tmp_path, [failed_as_known()]))
    line = KNOWN
    # Written by the script, from the data.
    (found,) = json.loads(Page(page).data)["cells"]
    assert found["known_issues"] == [line]
    assert found["vendor"] == "executorch/pass.py:3: raise AssertionError("
    assert found["fails"] == 1


def test_an_unavailable_target_is_a_row_with_its_reason(tmp_path: Path) -> None:
    away = cell("net", "mlx:fp32", status=Status.UNAVAILABLE, error="mlx is not installed",
                delegation=Delegation(), stages={}, program_bytes=0)  # fmt: skip
    text = shown(tmp_path / "r", [cell("net"), away])
    assert "∅ unavailable" in text
    assert "mlx is not installed" in text


def test_cases_are_listed_under_their_names(tmp_path: Path) -> None:
    text = shown(tmp_path / "r", [cell("net"), cell("net/cat.npy")])
    assert "\nnet\n" in text
    assert "\nnet/cat.npy\n" in text


def test_the_page_has_the_numbers_and_reasons_of_a_small_run(tmp_path: Path) -> None:
    run = write(
        tmp_path / "r", [cell("net", delegation=LEFT, model_frame="net.py:3", command="again")]
    )
    source = html.render(run)
    record = json.loads(Page(source).data)["cells"][0]
    assert record["why"][0] == "no kernel: aten.cumsum.default ×2, aten.sort.default ×2"
    assert record["model_frame"] == "net.py:3"
    assert record["repro"] == "again"
    assert 'id="few"' in source
    assert "4/10 in 2" in source
    many = write(tmp_path / "s", [cell(f"net/{number}") for number in range(30)])
    assert 'id="few"' not in html.render(many)
