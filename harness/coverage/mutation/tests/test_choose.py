"""The sample has all kinds of change; cells are cheap and different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from harness.coverage.coverage_map import MAP_FILE, CoverageMap
from harness.coverage.mutation.choose import CellChooser, MutantPool, draw_sample, select_cells
from harness.coverage.mutation.mutant import FileMutants
from harness.coverage.mutation.operators import list_mutants
from harness.coverage.summary import CoverageSummary, FileCoverage
from harness.errors import UsageError
from harness.record.cell import Cell, Numerics, Status

NAME = "executorch/a.py"
SOURCE = b"def f(x, y):\n    if x < y:\n        return x + 1\n    return 2 * 3 * 4 * 5\n"
MUTANTS = list_mutants(SOURCE, NAME, "xnnpack")
RETURN_X = next(each for each in MUTANTS if each.first == 3)


def make_cell(name: str, seconds: float, suite: str = "suites.a", **fields: object) -> Cell:
    given = {"status": Status.PASSED, "suite": suite, "seconds": seconds} | fields
    return Cell(case=name, target="xnnpack:fp32", **given)  # type: ignore[arg-type]


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[CoverageMap]:
    with CoverageMap(tmp_path / MAP_FILE, create=True) as found:
        short, long = {(-1, 2), (2, 4), (4, -1)}, {(-1, 2), (2, 3), (3, -1)}
        other = {(-1, 2), (2, 3), (3, 4), (4, -1)}
        for name in ("a", "b", "c"):
            found.add_cell(f"{name}@xnnpack:fp32", {NAME: long})
        found.add_cell("d@xnnpack:fp32", {NAME: other})
        found.add_cell("e@xnnpack:fp32", {NAME: short})
        found.add_cell("f@xnnpack:fp32", {NAME: other})
        yield found


def choose(recorded: CoverageMap, cells: list[Cell], limit: int = 0) -> tuple[list[str], int]:
    found, number = CellChooser(recorded, cells).choose(RETURN_X, limit)
    return [cell.case for cell in found], number


def test_cells_that_take_another_way_come_before_cheaper_ones(recorded: CoverageMap) -> None:
    cells = [make_cell(name, seconds) for name, seconds in zip("abcdef", range(1, 7), strict=True)]
    # d and f take the same way, a, b and c another one; e does not execute the line.
    assert choose(recorded, cells) == (["d", "a", "f", "b", "c"], 5)
    assert choose(recorded, cells, 2) == (["d", "a"], 5)


def test_suites_take_turns(recorded: CoverageMap) -> None:
    cells = [make_cell("a", 1), make_cell("b", 2), make_cell("c", 3, "suites.b")]
    assert choose(recorded, cells) == (["a", "c", "b"], 3)


def test_targets_take_turns(tmp_path: Path) -> None:
    with CoverageMap(tmp_path / "other.db", create=True) as found:
        cells = [make_cell(name, seconds) for name, seconds in zip("abc", (1, 2, 3), strict=True)]
        cells[2] = structs.replace(cells[2], target="xnnpack:int8")
        for cell in cells:
            found.add_cell(cell.id, {NAME: {(-1, 2), (2, 3), (3, -1)}})
        assert choose(found, cells) == (["a", "c", "b"], 3)


def test_conclusive_cells_come_first_and_useless_ones_are_left_out(recorded: CoverageMap) -> None:
    constant = Numerics(
        call=0, output=0, dtype="float32", shape=[4], max_abs=0.0, mean_abs=0.0, max_ulp=None,
        sqnr_db=1.0, rel_fro=0.0, cosine=1.0, bound=1.0, bound_used=0.0, exceeding=0, elements=4,
        conclusive_share=0.0,
    )  # fmt: skip
    cells = [
        make_cell("a", 1, numerics=[constant]),
        make_cell("b", 2),
        make_cell("c", 1, status=Status.MISMATCH),
        make_cell("d", 60),
    ]
    assert choose(recorded, cells) == (["b", "a"], 2)


def test_a_mutant_is_executed_if_a_cell_that_runs_executes_its_statement(
    recorded: CoverageMap,
) -> None:
    assert CellChooser(recorded, [make_cell("a", 1)]).is_executed(RETURN_X)
    assert not CellChooser(recorded, [make_cell("e", 1)]).is_executed(RETURN_X)


def test_a_sample_has_all_kinds_and_grows(recorded: CoverageMap) -> None:
    kinds = Counter(each.operator for each in draw_sample(MUTANTS, 5, seed=1))
    assert set(kinds) == {each.operator for each in MUTANTS}
    small, large = (draw_sample(MUTANTS, size, seed=1) for size in (3, 7))
    assert large[:3] == small
    drawn, other = (draw_sample(MUTANTS, 0, seed) for seed in (1, 2))
    assert {each.id for each in drawn} == {each.id for each in MUTANTS}
    assert len(drawn) == len(MUTANTS)
    assert drawn != other


def test_files_are_selected_by_text_or_glob() -> None:
    pool = MutantPool(MUTANTS, {NAME: FileMutants(), "executorch/b.py": FileMutants()})
    assert pool.select([]) == MUTANTS == pool.select(["a.py"]) == pool.select(["*/a.*"])
    assert pool.select(["b.py"]) == []
    with pytest.raises(UsageError, match="no file of these matches absent"):
        pool.select(["absent"])


def test_targets_select_cells() -> None:
    summary = CoverageSummary(files=[FileCoverage(name=NAME, area="xnnpack")])
    cells = [make_cell("a", 1), make_cell("b", 1)]
    for target in ("xnnpack", "xnnpack:fp32"):
        assert select_cells(target, cells, summary) == cells
    with pytest.raises(UsageError, match="no cells on xnnpack:int8"):
        select_cells("xnnpack:int8", cells, summary)
    with pytest.raises(UsageError, match="no code of tosa is recorded; there is xnnpack"):
        select_cells("tosa", cells, summary)
