"""Records that contradict themselves are damage: no gate takes them for evidence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings, strategies as st

from harness.cli import main
from harness.errors import RunUnreadable
from harness.record.cell import Status
from harness.record.folder import CELLS_FILE, RUN_FILE, load
from reports.tests.runs import cell, numerics, write

SCHEMA1 = Path(__file__).parent / "data" / "schema1"
NOWHERE: dict[str, Any] = {"runtime": "none", "numerics": []}

CELLS: dict[str, tuple[dict[str, Any], str]] = {
    "never executed": ({**NOWHERE}, "nothing executed it"),
    "not executed, with numbers": ({"runtime": "none"}, "nothing executed it"),
    "nothing compared": ({"numerics": []}, "no output was compared"),
    "exceeding": ({"numerics": [numerics(exceeding=5)]}, "5 elements outside its bound"),
    "the second output": ({"numerics": [numerics(), numerics(output=1, exceeding=1)]},
                          "output 1 of call 0"),
    "a problem": ({"numerics": [numerics(problem="dtype differs")]}, "dtype differs"),
    "over its bound": ({"numerics": [numerics(bound_used=1.5)]}, "1.5 times its bound"),
    "not a number": ({"numerics": [numerics(bound_used=float("nan"))]}, "nan times its bound"),
    "an input over its bound": ({"numerics": [numerics(role="input", exceeding=2)]},
                                "input 0 of call 0"),
    "an unexpected pass": ({"status": Status.XPASSED, "limitation": None}, "no limitation"),
    "a predicted failure": ({"status": Status.XFAILED, "limitation": None}, "no limitation"),
    "a mismatch of nothing": ({"status": Status.MISMATCH, **NOWHERE}, "nothing executed it"),
    "unavailable": ({"status": Status.UNAVAILABLE, "runtime": "native"}, "but it was executed"),
    "lowered": ({"status": Status.LOWERED, "numerics": [numerics()]}, "but it was executed"),
    "negative time": ({"seconds": -1.0}, "-1 seconds"),
    "a stage of negative time": ({"stages": {"lower": -0.5}}, "lower took -0.5 seconds"),
    "a stage of negative memory": ({"memory": {"lower": -5}}, "lower held -5 bytes"),
    "a negative size": ({"program_bytes": -1}, "negative"),
    "a call of negative time": ({"first_seconds": -1.0}, "the first call took -1 seconds"),
    "more twice than at all": ({"constant_bytes": 4, "duplicate_constant_bytes": 8},
                               "8 bytes of constants are duplicates"),
    "negative constants": ({"constant_bytes": -4, "duplicate_constant_bytes": -8}, "negative"),
    "more than there are": ({"status": Status.MISMATCH, "numerics": [numerics(exceeding=7)]},
                            "more elements exceed"),
    "a long seed": ({"seed": 10**400}, "more than 64 bits"),
    "a long number": ({"program_bytes": 2**63}, "more than 64 bits"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "reason"), CELLS.values(), ids=CELLS)
def test_a_cell_that_contradicts_itself_is_damage(
    tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    write(tmp_path / "good", [cell("add/a"), cell("add/b")], seed=0)
    run = write(tmp_path / "bad", [cell("add/a"), cell("add/b")], seed=0)
    file = run.path / CELLS_FILE
    first, second = file.read_text().splitlines()
    # Not through the encoder: it has no way to write integers that long.
    long = {name: value for name, value in fields.items() if isinstance(value, int) and value > 9}
    rest = {name: value for name, value in fields.items() if name not in long}
    text = json.dumps(json.loads(cell("add/b", **rest).to_json()) | long)
    file.write_text(f"{first}\n{text}\n")
    run = load(run.path)
    assert [item.case for item in run.cells] == ["add/a"]
    assert len(run.damage) == 1
    assert "line 2" in run.damage[0]
    assert reason in run.damage[0]
    assert not run.is_complete
    assert _gate(tmp_path / "good", run.path).exit_code == 2
    file.write_text(f"{first}\n{second}\n")
    assert load(run.path).is_complete
    assert _gate(tmp_path / "good", run.path).exit_code == 0


def _gate(baseline: Path, run: Path) -> Any:
    policy = run.parent / "gate.toml"
    policy.write_text("")
    arguments = ["gate", "--baseline", str(baseline), str(run), "--policy", str(policy)]
    return CliRunner().invoke(main, arguments)


def test_a_red_cell_stays_red_despite_a_contradiction(tmp_path: Path) -> None:
    write(tmp_path / "good", [cell("add/a"), cell("add/b")], seed=0)
    failed = cell("add/b", status=Status.FAILED, stage="lower", error="E", **NOWHERE)
    write(tmp_path / "bad", [cell("add/a", **NOWHERE), failed], exit_status=1, seed=0)
    assert _gate(tmp_path / "good", tmp_path / "bad").exit_code == 1


def test_many_contradictions_fit_on_a_page(tmp_path: Path) -> None:
    run = write(tmp_path / "bad", [cell(f"add/{at}", **NOWHERE) for at in range(500)])
    assert len(run.damage) == 500
    assert len(run.incompleteness) < 30
    assert run.incompleteness[-1] == "and 480 more damaged records"
    assert not run.is_complete


GONE = object()
PART = {"name": "p", "seed": 7, "expected": 2, "backends": {}}
RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "no exit status": ({"exit_status": None}, "complete, but has no exit_status"),
    "no end": ({"ended": None}, "complete, but has no ended"),
    "no count": ({"records": None}, "complete, but has no records"),
    "none of them": ({"ended": GONE, "exit_status": GONE, "records": GONE},
                     "no exit_status and no ended and no records"),
    "a negative count": ({"records": -2}, "its number of records is -2"),
    "nothing expected": ({"expected": []}, "no cell was expected, but there are records"),
    "no expected": ({"expected": GONE}, "has no expected"),
    "no backends": ({"backends": GONE}, "has no backends"),
    "no seed": ({"seed": GONE}, "has no seed"),
    "no schema": ({"schema": GONE}, "has no schema"),
    "a part without expected": ({"merged_from": [{"name": "p", "seed": 7, "backends": {}}]},
                                "merged run p has no expected"),
    "a part without backends": ({"merged_from": [{"name": "p", "seed": 7, "expected": 2}]},
                                "merged run p has no backends"),
    "a long seed": ({"seed": 10**400}, "more than 64 bits"),
    "a long seed of a part": ({"merged_from": [PART | {"seed": -(2**63) - 1}]}, "64 bits"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "reason"), RUNS.values(), ids=RUNS)
def test_a_run_that_contradicts_itself_is_damage(
    tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    write(tmp_path / "good", [cell("add/a"), cell("add/b")], seed=0)
    run = write(tmp_path / "bad", [cell("add/a"), cell("add/b")], seed=0)
    _rewrite(run.path / RUN_FILE, fields)
    found = load(run.path)
    assert any(reason in line for line in found.damage), found.damage
    assert not found.is_complete
    assert len(found.cells) == 2
    assert _gate(tmp_path / "good", run.path).exit_code == 2


def _rewrite(file: Path, fields: dict[str, Any]) -> None:
    record = json.loads(file.read_text()) | fields
    file.write_text(json.dumps({k: v for k, v in record.items() if v is not GONE}))


@pytest.mark.parametrize("schema", [0, -5, 99])
def test_a_schema_that_never_was_is_refused(tmp_path: Path, schema: int) -> None:
    run = write(tmp_path / "run", [cell("add/a")])
    _rewrite(run.path / RUN_FILE, {"schema": schema})
    with pytest.raises(RunUnreadable, match=f"schema {schema}"):
        load(run.path)
    assert _gate(run.path, run.path).exit_code == 2


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000])
def test_brackets_without_end_are_damage(tmp_path: Path, text: str) -> None:
    run = write(tmp_path / "run", [cell("add/a"), cell("add/b")], seed=0)
    file = run.path / CELLS_FILE
    first, _ = file.read_text().splitlines()
    file.write_text(f"{first}\n{text}\n")
    found = load(run.path)
    assert [item.case for item in found.cells] == ["add/a"]
    assert "line 2 is not a cell record" in found.damage[0]
    (run.path / RUN_FILE).write_text(text)
    with pytest.raises(RunUnreadable, match="not a run record"):
        load(run.path)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["values", "seed", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)
_FIELDS = st.sampled_from([*json.loads(cell().to_json())])
_RUN_FIELDS = st.sampled_from(sorted(json.loads((SCHEMA1 / RUN_FILE).read_text())))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(_FIELDS, _VALUES, _RUN_FIELDS, _VALUES)
def test_any_field_value_is_read_or_reported(
    tmp_path: Path, name: str, value: Any, of_run: str, other: Any
) -> None:
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    run = write(tmp_path / "run", [cell("add/a"), cell("add/b")], seed=0)
    file = run.path / CELLS_FILE
    first, second = file.read_text().splitlines()
    file.write_text(f"{first}\n{json.dumps(json.loads(second) | {name: value})}\n")
    found = load(run.path)
    assert len(found.cells) + len(found.damage) >= 2
    _rewrite(run.path / RUN_FILE, {of_run: other})
    try:
        load(run.path)
    except RunUnreadable as error:
        assert RUN_FILE in str(error)  # noqa: PT017  # either it loads, or this is said
