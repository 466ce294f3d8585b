"""Targets, cells and run folders are read back as written, and damage is reported."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from harness.errors import RunUnreadable, RunUnwritable, UnknownCell, UnknownTarget
from harness.record.cell import Cell, Delegation, LimitationRef, Numerics, OutputValues, Status
from harness.record.evidence import Vacuity, VacuousCause
from harness.record.folder import CELLS_FILE, RUN_FILE, RunWriter, find_latest, load
from harness.record.program_data import Encoding
from harness.record.run import RunInfo
from harness.record.severity import Severity
from harness.record.target import Target, cell_id, split_cell_id

_words = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
_texts = st.text(max_size=40)
_floats = st.floats(allow_nan=True, allow_infinity=True)
_numerics = st.builds(
    Numerics,
    call=st.integers(0, 3),
    output=st.integers(0, 3),
    dtype=st.just("float32"),
    shape=st.lists(st.integers(0, 5), max_size=4),
    max_abs=_floats,
    mean_abs=_floats,
    max_ulp=st.none() | _floats,
    sqnr_db=_floats,
    rel_fro=_floats,
    cosine=_floats,
    bound=_floats,
    bound_used=_floats,
    exceeding=st.integers(0, 9),
    elements=st.integers(0, 9),
    problem=st.none() | _texts,
    worst_error=st.none() | _floats,
    severity=st.none() | st.sampled_from(Severity),
    vacuous=st.none()
    | st.builds(
        Vacuity,
        cause=st.sampled_from(VacuousCause),
        passing_elements=st.integers(0, 9),
        constant=st.none() | _floats,
    ),
    name=st.sampled_from(["", "inf", "['a']"]),
)
_cells = st.builds(
    Cell,
    case=_texts,
    target=_words,
    status=st.sampled_from(Status),
    error=st.none() | st.sampled_from(["null", "inf", "nan", "1", "</script>"]) | _texts,
    delegation=st.builds(
        Delegation, delegated_ops=st.dictionaries(_texts, st.integers(0, 9), max_size=3)
    ),
    numerics=st.lists(_numerics, max_size=2),
    limitation=st.none() | st.builds(LimitationRef, reason=_texts),
    encodings=st.lists(st.builds(Encoding, parameter=_texts, codes=st.none() | _texts), max_size=2),
    outputs=st.lists(st.builds(OutputValues, values=st.lists(_floats, max_size=3)), max_size=2),
    severity=st.none() | st.sampled_from(Severity),
)


@given(_words, _words)
def test_target_parse_and_str_are_inverse(backend: str, recipe: str) -> None:
    target = Target(backend, recipe)
    assert Target.parse(str(target)) == target
    assert split_cell_id(cell_id("a/b", target)) == ("a/b", target)


@pytest.mark.parametrize("text", ["", "xnnpack", "xnnpack:", ":fp32", "a:b:c", "X:fp32", "a b:c"])
def test_bad_target_spelling_is_named(text: str) -> None:
    with pytest.raises(UnknownTarget, match="backend:recipe"):
        Target.parse(text)


@given(_cells)
def test_cell_json_round_trip(cell: Cell) -> None:
    line = cell.to_json()
    assert "\n" not in line
    again = Cell.from_json(line)
    # repr, because NaN is not equal to itself.
    assert repr(again) == repr(cell)


def test_cell_json_is_strict_and_keeps_non_finite_numbers() -> None:
    row = Numerics(
        call=0, output=0, dtype="float32", shape=[1], max_abs=math.inf, mean_abs=math.nan,
        max_ulp=None, sqnr_db=-math.inf, rel_fro=0.0, cosine=1.0, bound=0.0, bound_used=0.0,
        exceeding=0, elements=1,
    )  # fmt: skip
    cell = Cell(case="a/b", target="x:y", status=Status.PASSED, numerics=[row])
    record = json.loads(cell.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert record["numerics"][0]["max_abs"] == "inf"
    assert Cell.from_json(cell.to_json()).numerics[0].sqnr_db == -math.inf


def test_a_record_without_the_newer_fields_loads() -> None:
    line = '{"case": "a/b", "target": "x:y", "status": "passed"}'
    cell = Cell.from_json(line)
    assert (cell.encodings, cell.outputs) == ([], [])


@pytest.mark.parametrize("outputs", ["[1]", '[{"call": 0}]', '[{"values": "inf"}]'])
def test_broken_outputs_are_no_record(outputs: str) -> None:
    line = f'{{"case": "a/b", "target": "x:y", "status": "passed", "outputs": {outputs}}}'
    with pytest.raises(msgspec.MsgspecError):
        Cell.from_json(line)


def test_every_status_has_its_contract_spelling() -> None:
    assert [status.value for status in Status] == [
        "passed", "mismatch", "failed", "crashed", "timeout", "unavailable", "unsupported",
        "lowered", "xfailed", "xpassed",
    ]  # fmt: skip
    red = {status.value for status in Status if status.is_red}
    assert red == {"mismatch", "failed", "crashed", "timeout", "xpassed"}


def _cell(name: str) -> Cell:
    return Cell(case=name, target="x:y", status=Status.FAILED, error="E")


def _write(folder: Path, *, close: bool) -> RunWriter:
    writer = RunWriter(folder, RunInfo(expected=["a@x:y", "b@x:y"]))
    writer.append(_cell("a"))
    if close:
        writer.append(_cell("b"))
        writer.close(exit_status=0)
    else:
        writer._cells.close()
    return writer


def test_a_closed_run_is_complete(tmp_path: Path) -> None:
    _write(tmp_path / "run", close=True)
    run = load(tmp_path / "run")
    assert run.is_complete
    assert [cell.id for cell in run.cells] == ["a@x:y", "b@x:y"]
    assert find_latest(tmp_path) == tmp_path / "run"


def test_a_killed_run_loads_as_incomplete(tmp_path: Path) -> None:
    _write(tmp_path / "run", close=False)
    run = load(tmp_path / "run")
    assert not run.is_complete
    assert run.missing == ["b@x:y"]
    assert any("did not end by itself" in line for line in run.incompleteness)
    with pytest.raises(UnknownCell, match="expected, but has no record"):
        run.cell("b@x:y")


def test_a_truncated_line_hides_no_other(tmp_path: Path) -> None:
    _write(tmp_path / "run", close=True)
    file = tmp_path / "run" / CELLS_FILE
    file.write_bytes(file.read_bytes()[:-20])
    run = load(tmp_path / "run")
    assert [cell.id for cell in run.cells] == ["a@x:y"]
    assert "line 2" in run.damage[0]
    assert not run.is_complete


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "x"}', "\xff"])
def test_a_broken_run_file_is_one_readable_error(tmp_path: Path, text: str) -> None:
    (tmp_path / RUN_FILE).write_text(text, encoding="latin-1")
    with pytest.raises(RunUnreadable, match=r"run\.json"):
        load(tmp_path)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / RUN_FILE).write_text('{"schema": 99}')
    with pytest.raises(RunUnreadable, match="schema 99"):
        load(tmp_path)


def test_a_second_run_does_not_overwrite_the_first(tmp_path: Path) -> None:
    _write(tmp_path / "run", close=True)
    with pytest.raises(RunUnwritable, match="already holds a run"):
        RunWriter(tmp_path / "run", RunInfo())
    assert load(tmp_path / "run").is_complete


def test_an_unwritable_folder_is_one_readable_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunUnwritable, match="another folder"):
        RunWriter(tmp_path / "file" / "run", RunInfo())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_keeps_records_already_written(tmp_path: Path) -> None:
    writer = _write(tmp_path / "run", close=False)
    writer._cells = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115
    with pytest.raises(RunUnwritable, match="No space left"):
        writer.append(_cell("b"))
    writer._cells.close()
    assert [cell.id for cell in load(tmp_path / "run").cells] == ["a@x:y"]


def test_an_incomplete_line_is_removed(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from harness.record.folder import RunWriter; from harness.record.run import RunInfo\n"
        "from harness.record.cell import Cell, Status\n"
        "writer = RunWriter(Path(sys.argv[1]), RunInfo(expected=['a@x:y', 'b@x:y']))\n"
        "writer.append(Cell(case='a', target='x:y', status=Status.FAILED))\n"
        "limit = writer._cells.tell() + 100\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
        "writer.append(Cell(case='b', target='x:y', status=Status.FAILED))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "RunUnwritable: cannot append" in result.stderr
    run = load(tmp_path / "run")
    assert [cell.id for cell in run.cells] == ["a@x:y"]
    assert not run.damage
