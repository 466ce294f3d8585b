"""The pandas tables hold every record, and count cells without records."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from harness.record.cell import Cell, Delegation, LimitationRef, Numerics, Status
from harness.record.host import Environment
from harness.record.run import MergedPart, Run, RunInfo
from reports import tables
from reports.tests.runs import cell, large, numerics, write

_floats = st.floats(allow_nan=True, allow_infinity=True)
_words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_names = _words.filter(lambda name: "@" not in name)
_counts = st.integers(0, 50)


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    """Any record, the odd ones included."""
    outputs: list[Numerics] = [
        numerics(max_abs=draw(_floats), sqnr_db=draw(_floats), bound_used=draw(_floats))
        for _ in range(draw(st.integers(0, 2)))
    ]
    taken = Delegation(
        delegates=draw(_counts),
        delegated_nodes=draw(_counts),
        undelegated_nodes=draw(_counts),
        undelegated_ops=draw(st.dictionaries(_words, _counts, max_size=2)),
    )
    reason = LimitationRef(reason=draw(_words), link=draw(st.none() | _words))
    return cell(
        draw(_names),
        draw(st.sampled_from(["xnnpack:fp32", "tosa:fp", "odd"])),
        status=draw(st.sampled_from(Status)),
        op=draw(_words),
        numerics=outputs,
        delegation=taken,
        runtime=draw(st.sampled_from(["none", "native", "emulated"])),
        stages=draw(st.dictionaries(_words, _floats, max_size=3)),
        seconds=draw(_floats),
        limitation=draw(st.none() | st.just(reason)),
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(cells(), max_size=6), st.lists(_words, max_size=3))
def test_frame_has_one_row_per_record_and_totals_one_count_per_cell(
    records: list[Cell], others: list[str]
) -> None:
    expected = [*(record.id for record in records), *others]
    # Not through a folder: loading omits records that contradict themselves.
    info = RunInfo(expected=list(dict.fromkeys(expected)))
    run = Run(path=Path("r"), info=info, cells=records)
    table = tables.frame(run)
    assert len(table) == len(records)
    assert list(table.index) == [record.id for record in records]
    assert list(table["status"]) == [record.status.value for record in records]
    assert table["counted"].sum() == len({record.id for record in records})
    names = {record.id for record in records} | set(others)
    totals = tables.totals(run)
    assert totals["cells"].sum() == len(names)
    assert totals["not_run"].sum() == len(run.missing)


def test_frame_has_the_numbers_of_the_worst_output_and_every_stage(tmp_path: Path) -> None:
    outputs = [numerics(sqnr_db=50.0, bound_used=0.2), numerics(sqnr_db=30.0, max_abs=0.5)]
    run = write(
        tmp_path / "r",
        [
            cell("a", numerics=outputs, stages={"lower": 2.0}, memory={"lower": 5, "run": 7}),
            cell("b", status=Status.FAILED, numerics=[], stages={}),
        ],
    )
    table = tables.frame(run)
    first, second = table.iloc[0], table.iloc[1]
    assert (first["sqnr_db"], first["max_abs"], first["bound_used"]) == (30.0, 0.5, 0.5)
    assert (first["outputs"], second["outputs"]) == (2, 0)
    assert math.isnan(second["sqnr_db"])
    assert first["seconds_lower"] == 2.0
    assert math.isnan(second["seconds_lower"])
    assert (first["memory"], first["memory_lower"], first["memory_run"]) == (7, 5, 7)
    assert math.isnan(second["memory"])
    assert math.isnan(second["memory_run"])
    assert (first["backend"], first["recipe"], first["program_bytes"]) == ("xnnpack", "fp32", 2048)


def test_infinities_and_nan_survive_the_way_to_the_table(tmp_path: Path) -> None:
    exact = numerics(sqnr_db=math.inf, max_abs=0.0)
    broken = numerics(sqnr_db=-math.inf, max_abs=math.nan, bound_used=math.inf)
    run = write(
        tmp_path / "r",
        [cell("a", numerics=[exact]), cell("b", status=Status.MISMATCH, numerics=[broken])],
    )
    table = tables.frame(run)
    assert list(table["sqnr_db"]) == [math.inf, -math.inf]
    assert math.isnan(table["max_abs"].iloc[1])
    assert table["bound_used"].iloc[1] == math.inf


def test_totals_split_passes_by_delegation_and_count_cells_not_run(tmp_path: Path) -> None:
    passed, without = cell("a"), cell("b", delegation=Delegation(undelegated_nodes=2))
    run = write(tmp_path / "r", [passed, without], expected=[passed.id, without.id, "c@tosa:fp"])
    table = tables.totals(run)
    assert table.loc["xnnpack:fp32", "passed_delegated"] == 1
    assert table.loc["xnnpack:fp32", "passed_nothing_delegated"] == 1
    assert table.loc["xnnpack:fp32", "pass_rate"] == 1.0
    assert table.loc["tosa:fp", "not_run"] == 1
    assert math.isnan(table.loc["tosa:fp", "pass_rate"])


def test_matrix_by_case_and_by_op(tmp_path: Path) -> None:
    recorded = [
        cell("add/a", "xnnpack:fp32"),
        cell("add/b", "xnnpack:fp32", status=Status.MISMATCH),
        cell("add/a", "tosa:fp", status=Status.UNSUPPORTED, numerics=[]),
    ]
    run = write(tmp_path / "r", recorded, expected=[*(c.id for c in recorded), "add/a@mlx:fp32"])
    cases = tables.matrix(run)
    assert cases.loc["add/a", "xnnpack:fp32"] == "passed"
    assert cases.loc["add/b", "xnnpack:fp32"] == "mismatch"
    assert cases.loc["add/b", "tosa:fp"] == ""
    assert cases.loc["add/a", "mlx:fp32"] == "not_run"
    ops = tables.matrix(run, by="op")
    assert ops.loc["add"].to_dict() == {
        "xnnpack:fp32": "1/2",
        "tosa:fp": "unsupported",
        "mlx:fp32": "not_run",
    }
    with pytest.raises(ValueError, match="'case' or 'op'"):
        tables.matrix(run, by="suite")


def test_delegation_and_fallback_nodes(tmp_path: Path) -> None:
    left = Delegation(
        delegates=2, delegated_nodes=5, undelegated_nodes=3, undelegated_ops={"cat": 1, "mm": 2}
    )
    run = write(tmp_path / "r", [cell("a", delegation=left), cell("b", delegation=left)])
    assert tables.delegation(run).loc["xnnpack:fp32"].to_dict() == {
        "cells": 2,
        "cells_nothing_delegated": 0,
        "delegates": 4,
        "delegated_nodes": 10,
        "undelegated_nodes": 6,
        "left_over": "mm ×4, cat ×2",
    }
    assert tables.left_over(run).to_dict("records") == [
        {"target": "xnnpack:fp32", "op": "mm", "calls": 4, "cells": 2},
        {"target": "xnnpack:fp32", "op": "cat", "calls": 2, "cells": 2},
    ]


def test_limitations_by_reason(tmp_path: Path) -> None:
    known = LimitationRef(reason="rank 1 weights", link="https://example.org/1")
    run = write(
        tmp_path / "r",
        [
            cell("a", "tosa:fp", status=Status.XFAILED, limitation=known),
            cell("b", "tosa:int", status=Status.XFAILED, limitation=known),
        ],
    )
    (row,) = tables.limitations(run).to_dict("records")
    assert (row["reason"], row["link"]) == ("rank 1 weights", "https://example.org/1")
    assert (row["cells"], row["xfailed"], row["xpassed"]) == (2, 2, 0)
    assert row["targets"] == "tosa:fp tosa:int"


def test_failures_are_the_red_rows_of_the_frame(tmp_path: Path) -> None:
    run = large(tmp_path / "r", cases=60)
    table = tables.failures(run)
    assert len(table) > 5
    assert table["red"].all()
    assert len(table) == tables.frame(run)["red"].sum()


def test_tables_of_an_empty_run_have_their_columns_and_no_rows(tmp_path: Path) -> None:
    run = write(tmp_path / "r", [])
    made = [tables.frame(run), tables.totals(run), tables.delegation(run), tables.left_over(run),
            tables.limitations(run), tables.failures(run)]  # fmt: skip
    assert all(len(table) == 0 and len(table.columns) > 0 for table in made)
    assert tables.matrix(run).empty


def test_coverage_counts_each_outcome_of_an_op_on_a_target(tmp_path: Path) -> None:
    recorded = [
        cell("add/a"),
        cell("add/b", status=Status.MISMATCH),
        cell("add/c", delegation=Delegation(undelegated_nodes=2)),
        cell("add/a", "tosa:fp", status=Status.UNSUPPORTED, delegation=Delegation()),
    ]
    run = write(tmp_path / "r", recorded, expected=[*(c.id for c in recorded), "add/d@tosa:fp"])
    table = tables.coverage(run)
    first, second = table.loc[("add", "xnnpack:fp32")], table.loc[("add", "tosa:fp")]
    assert (first["cells"], first["passed"], first["mismatch"], first["delegated"]) == (3, 2, 1, 2)
    assert first["passed_nothing_delegated"] == 1
    assert first["pass_rate"] == pytest.approx(2 / 3)
    assert (second["cells"], second["rated"], second["not_run"]) == (2, 1, 1)
    assert math.isnan(second["pass_rate"])
    assert tables.not_run(run).index.tolist() == ["add/d@tosa:fp"]


def test_numerics_are_quantiles_over_outputs_that_occur(tmp_path: Path) -> None:
    outputs = [numerics(bound_used=at / 10, sqnr_db=at * 10.0) for at in range(10)]
    outputs += [numerics(bound_used=math.nan, sqnr_db=math.inf)]
    wrong = cell("a", status=Status.MISMATCH, numerics=outputs)
    run = write(tmp_path / "r", [wrong, cell("b", status=Status.FAILED, numerics=[])])
    table = tables.numerics(run)
    used, sqnr = (table.loc[("xnnpack:fp32", name)] for name in ("bound_used", "sqnr_db"))
    assert (used["outputs"], used["nan"], used["infinite"]) == (11, 1, 0)
    assert (used["min"], used["p50"], used["p95"], used["max"]) == (0.0, 0.5, 0.9, 0.9)
    assert (sqnr["nan"], sqnr["infinite"]) == (0, 1)
    assert (sqnr["min"], sqnr["p50"], sqnr["p99"], sqnr["max"]) == (0.0, 50.0, 90.0, math.inf)


@pytest.mark.parametrize("metric", ["bound_used", "sqnr_db"])
def test_a_histogram_holds_every_output_once(tmp_path: Path, metric: str) -> None:
    values = [-math.inf, -3.0, 0.0, 0.0005, 0.001, 0.9, 1.0, 1.5, 20.0, 400.0, math.inf, math.nan]
    # A share of a bound is not negative.
    values = values if metric == "sqnr_db" else values[2:]
    outputs = [numerics(**{metric: value}) for value in values]
    run = write(tmp_path / "r", [cell("a", status=Status.MISMATCH, numerics=outputs)])
    table = tables.histogram(run, metric)
    assert table["outputs"].sum() == len(values)
    assert table["outputs"].iloc[-1] == 1  # NaN
    if metric == "sqnr_db":
        assert table["exact"].sum() == 1
    else:
        conforming = table[table["high"] <= 1.0]
        assert conforming["outputs"].sum() == 5
    with pytest.raises(ValueError, match="increasing order"):
        tables.histogram(run, metric, [1.0, 1.0])
    with pytest.raises(ValueError, match="unknown metric 'speed'"):
        tables.histogram(run, "speed")


def test_slowest_cells_with_their_slowest_stage(tmp_path: Path) -> None:
    run = write(
        tmp_path / "r",
        [cell("a", seconds=1.0, stages={"run": 0.2, "lower": 0.7}), cell("b", seconds=3.0),
         cell("c", seconds=0.0)],
    )  # fmt: skip
    table = tables.slowest(run)
    assert table.index.tolist() == ["b@xnnpack:fp32", "a@xnnpack:fp32"]
    assert table["slowest_stage"].tolist() == ["lower", "lower"]
    assert table["stage_seconds"].iloc[1] == 0.7
    assert len(tables.slowest(run, 1)) == 1
    with pytest.raises(ValueError, match="at least 1"):
        tables.slowest(run, 0)


def test_largest_cells_with_their_largest_stage(tmp_path: Path) -> None:
    run = write(
        tmp_path / "r",
        [cell("a", memory={"run": 5, "lower": 3}), cell("b", memory={"lower": 9}),
         cell("c", memory={"run": 0}), cell("d")],
    )  # fmt: skip
    table = tables.largest(run)
    assert table.index.tolist() == ["b@xnnpack:fp32", "a@xnnpack:fp32"]
    assert table["memory"].tolist() == [9, 5]
    assert table["largest_stage"].tolist() == ["lower", "run"]
    assert len(tables.largest(run, 1)) == 1
    with pytest.raises(ValueError, match="at least 1"):
        tables.largest(run, 0)


def test_environments_side_by_side(tmp_path: Path) -> None:
    other = Environment(python="3.11.7", packages={"torch": "2.10.0", "mlx": "1"})
    first = write(tmp_path / "a" / "differs", [cell("a")])
    second = write(tmp_path / "b" / "differs", [cell("a")], environment=other)
    parts = [MergedPart(name="linux", environment=other, seed=3), MergedPart(name="mac")]
    merged = write(tmp_path / "m", [cell("a")], merged_from=parts)
    table = tables.environments([first, second, merged])
    assert table.columns.tolist() == [
        "differs", "differs #2", "differs #3", "m (linux)", "m (mac)",
    ]  # fmt: skip
    assert table.loc["package torch"].tolist()[1:] == ["2.9.0", "2.10.0", "2.10.0", ""]
    assert table.loc["package mlx", "differs"]
    assert table.loc["seed", "m (linux)"] == "3"
    assert not tables.environments([first])["differs"].any()
    with pytest.raises(ValueError, match="at least one run"):
        tables.environments([])


def test_the_frame_is_a_name_of_the_package_and_costs_nothing_to_import() -> None:
    code = "import sys, reports; reports.frame; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"pandas", "numpy", "pyarrow", "torch", "rich"} & set(done.stdout.split())
