"""No loss of records makes a red run green: removal, truncation, reordering, duplication."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, event, given, settings, strategies as st

from harness.record.folder import CELLS_FILE, RUN_FILE, load
from harness.record.run import Run, RunInfo
from reports.comparison.gate import judge, parse
from reports.comparison.snapshot import take_snapshot
from reports.comparison.tests.sides import made, side

TODAY = datetime.date(2026, 6, 15)

WORDS = ["passed", "undelegated", "mismatch", "failed", "failed otherwise", "crashed", "timeout",
         "xpassed", "xfailed", "lowered", "unsupported", "unavailable", "worse sqnr", "nan sqnr",
         "less delegated", "emulated", "absent", "not_run"]  # fmt: skip

CASES = [f"subject/{number}" for number in range(4)]

POLICIES = [parse(""), parse("subset_min_cells = 1"),
            parse('red = ["newly-failing", "newly-crashed", "still-failing"]'),
            parse('red = ["not-run", "disappeared", "newly-failing"]')]  # fmt: skip

sides = st.fixed_dictionaries({case: st.sampled_from(WORDS) for case in CASES})

#: Additional records of a cell, as a restarted worker writes them.
again = st.lists(st.tuples(st.sampled_from(CASES), st.sampled_from(WORDS)), max_size=3)


def _code(old: Run, new: Run, policy: int) -> int:
    return judge(old, new, POLICIES[policy], today=TODAY).exit_code


def _red_run(
    old: dict[str, str], new: dict[str, str], more: list[tuple[str, str]], policy: int
) -> tuple[Run, Run]:
    before, after = side(old), side(new)
    extra = [found for case, word in more if (found := made(word, case)) is not None]
    after.cells += extra
    after.info.records = len(after.cells)
    after.info.expected = list(dict.fromkeys([*after.info.expected, *(c.id for c in extra)]))
    after.info.exit_status = int(any(cell.status.is_red for cell in after.cells))
    assume(_code(before, after, policy) == 1)
    return before, after


def _reloaded(info: RunInfo, content: bytes) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / RUN_FILE).write_bytes(msgspec.json.encode(info))
        (Path(folder) / CELLS_FILE).write_bytes(content)
        return load(folder)


def _lines(run: Run) -> list[bytes]:
    return [cell.to_json().encode() + b"\n" for cell in run.cells]


Change = Callable[[list[bytes], st.DataObject], bytes]


def _removed(lines: list[bytes], data: st.DataObject) -> bytes:
    keep = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    return b"".join(line for line, kept in zip(lines, keep, strict=True) if kept)


def _truncated(lines: list[bytes], data: st.DataObject) -> bytes:
    whole = b"".join(lines)
    return whole[: data.draw(st.integers(0, len(whole)))]


def _reordered(lines: list[bytes], data: st.DataObject) -> bytes:
    return b"".join(data.draw(st.permutations(lines)))


def _duplicated(lines: list[bytes], data: st.DataObject) -> bytes:
    return b"".join([*lines, *data.draw(st.lists(st.sampled_from(lines), max_size=4))])


def _all(lines: list[bytes], data: st.DataObject) -> bytes:
    shuffled = data.draw(st.permutations(lines))
    kept = _duplicated(shuffled, data).splitlines(keepends=True)
    return _truncated(_removed(kept, data).splitlines(keepends=True), data)


@pytest.mark.parametrize("change", [_removed, _truncated, _reordered, _duplicated, _all])
@given(old=sides, new=sides, more=again, policy=st.integers(0, len(POLICIES) - 1), data=st.data())
@settings(max_examples=120, deadline=None)
def test_no_change_of_its_records_makes_a_red_run_green(
    change: Change,
    old: dict[str, str],
    new: dict[str, str],
    more: list[tuple[str, str]],
    policy: int,
    data: st.DataObject,
) -> None:
    before, after = _red_run(old, new, more, policy)
    altered = _reloaded(after.info, change(_lines(after), data))
    code = _code(before, altered, policy)
    event(f"exit code {code}")
    assert code != 0


@given(old=sides, new=sides, more=again, data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_order_of_records_has_no_effect(
    old: dict[str, str], new: dict[str, str], more: list[tuple[str, str]], data: st.DataObject
) -> None:
    before, after = side(old), side(new)
    after.cells += [found for case, word in more if (found := made(word, case)) is not None]
    mixed = Run(path=after.path, info=after.info, cells=data.draw(st.permutations(after.cells)))
    first, second = (judge(before, run, POLICIES[0], today=TODAY) for run in (after, mixed))
    assert first.exit_code == second.exit_code
    # As text: NaN is not equal to itself.
    assert repr(first.red) == repr(second.red)
    assert repr(sorted(take_snapshot(after).cells.items())) == repr(
        sorted(take_snapshot(mixed).cells.items())
    )


def test_a_red_run_cut_at_any_byte_is_not_green() -> None:
    before = side({"subject/0": "passed", "subject/1": "failed"})
    after = side({"subject/0": "crashed", "subject/1": "failed"})
    lines = _lines(after)
    whole, last = b"".join(lines), len(lines[-1])
    # All bytes of one line, and the bytes around the ends of the other lines.
    ends = [sum(map(len, lines[:number])) for number in range(len(lines))]
    near = {end + step for end in ends for step in range(-3, 4) if 0 <= end + step < len(whole)}
    for end in near | set(range(len(whole) - last, len(whole))):
        assert _code(before, _reloaded(after.info, whole[:end]), 0) != 0


def test_no_record_of_a_repeated_cell_is_ignored() -> None:
    before = side({"subject/0": "failed"})
    after = side({"subject/0": "failed"})
    found = made("crashed", "subject/0")
    assert found is not None
    after.cells.append(found)
    after.info.records = len(after.cells)
    lines = _lines(after)
    assert _code(before, _reloaded(after.info, b"".join(lines)), 0) == 1
    for number in range(len(lines)):
        rest = b"".join(lines[:number] + lines[number + 1 :])
        assert _code(before, _reloaded(after.info, rest), 0) != 0
