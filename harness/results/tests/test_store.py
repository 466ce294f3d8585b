"""The store: what is kept, what can be believed of what is read, and what may go."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from harness.errors import UsageError
from harness.limitation import EXCUSE
from harness.record.cell import Cached, Cell, Divergence, LimitationRef, Numerics, Status
from harness.results.entry import Entry, is_kept
from harness.results.store import Store

KEY = "ab" + "0" * 62
_REASON = LimitationRef(reason="known")


def cell(status: Status = Status.PASSED, **fields: Any) -> Cell:
    row = Numerics(
        call=0, output=0, dtype="float32", shape=[2], max_abs=0.0, mean_abs=0.0, max_ulp=0.0,
        sqnr_db=float("inf"), rel_fro=0.0, cosine=1.0, bound=1e-6, bound_used=0.1, exceeding=0,
        elements=2,
    )  # fmt: skip
    given: dict[str, Any] = {"stages": {"build": 0.1}, "worker": "gw3"}
    if status in (Status.PASSED, Status.XPASSED):
        given |= {"runtime": "native", "numerics": [row]}
    return Cell(case="add/a", target="null:eager", status=status, **{**given, **fields})


def entry(record: Cell | None = None, key: str = KEY) -> Entry:
    return Entry.of(key, record or cell(), run="20260101T000000-1", claim='{"a": 1}')


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "results")
    return f"memory://{tmp_path.name}-{time.monotonic_ns()}"


def test_what_is_stored_is_found_and_says_where_it_is_from(place: str) -> None:
    store = Store(place)
    assert store.find([KEY]) == {}
    store.put(entry())
    assert store.flush() == ""
    found = Store(place).find([KEY, "cd" + "0" * 62])
    assert list(found) == [KEY]
    record = found[KEY].record("add/a@null:eager")
    assert record is not None
    assert record.cached == Cached(
        run="20260101T000000-1", host=found[KEY].host, when=found[KEY].when
    )
    assert record.worker is None
    record.cached, record.worker = None, "gw3"
    assert record.to_json() == cell().to_json()
    assert found[KEY].claim == '{"a": 1}'


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        (cell(), True),
        (cell(Status.UNSUPPORTED, stages={}), True),
        (cell(Status.LOWERED), True),
        (cell(Status.XFAILED, limitation=_REASON, error="ValueError: 3"), True),
        (cell(Status.XFAILED, limitation=_REASON, error=EXCUSE), False),
        (cell(Status.XFAILED, limitation=_REASON, error="memory: 3.10 GiB at stage lower"), False),
        (cell(Status.XFAILED, limitation=_REASON, error="Fatal Python error: Segm"), False),
        (cell(Status.XFAILED, limitation=_REASON, error="Timeout (0:05:00)!"), False),
        (cell(Status.XFAILED, limitation=_REASON, error="worker gw1 died without"), False),
        (cell(Status.UNSUPPORTED, limitation=_REASON, error=EXCUSE), False),
        (cell(Status.XFAILED, limitation=_REASON, untraced="no time"), False),
        (
            cell(
                Status.XFAILED,
                limitation=_REASON,
                first_divergence=Divergence(node="a", op="b", note="out of time"),
            ),
            False,
        ),
        (cell(part="linux"), False),
        (cell(runtime="none"), False),  # contradicts itself
        *((cell(status), False) for status in Status if status.is_red),
        (cell(Status.UNAVAILABLE), False),
    ],
)
def test_kept_is_what_was_decided_by_what_the_key_is_made_of(record: Cell, kept: bool) -> None:
    assert is_kept(record) is kept
    assert (entry(record).record("add/a@null:eager") is not None) is kept


def test_every_status_was_decided_on() -> None:
    named = {Status.PASSED, Status.XFAILED, Status.UNSUPPORTED, Status.LOWERED, Status.UNAVAILABLE}
    assert {status for status in Status if status.is_red} | named == set(Status)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_damaged_entry_is_a_miss(tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(entry().to_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = data.draw(
        st.sampled_from(
            [
                bytes(whole[:at]),
                bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]),
                bytes(whole[:at] + b"7" + whole[at + 1 :]),
            ]
        )
    )
    store = Store(str(tmp_path))
    store.put(entry())
    (path,) = (tmp_path / "cells").rglob("*.json")
    path.write_bytes(damaged)
    found = store.find([KEY])
    if found:  # it was no damage
        assert found[KEY] == Entry.read(bytes(whole), KEY)


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"a": 1}'])
def test_what_is_no_entry_is_a_miss(tmp_path: Path, content: bytes) -> None:
    store = Store(str(tmp_path))
    store.put(entry())
    (path,) = (tmp_path / "cells").rglob("*.json")
    path.write_bytes(content)
    assert store.find([KEY]) == {}
    store.put(entry())
    assert list(store.find([KEY])) == [KEY]


def test_an_entry_of_another_key_or_cell_is_a_miss(tmp_path: Path) -> None:
    other = "ab" + "1" * 62
    store = Store(str(tmp_path))
    store.put(entry())
    (path,) = (tmp_path / "cells").rglob("*.json")
    path.rename(path.with_name(f"{other}.json"))
    assert store.find([other]) == {}
    assert entry().record("add/b@null:eager") is None


def _write(place: str, number: int) -> None:
    store = Store(place)
    for _ in range(100):
        store.put(entry(cell(seconds=float(number))))
    assert store.flush() == ""


def test_writers_at_once_leave_one_whole_entry_and_readers_see_no_half(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(str(tmp_path), n)) for n in range(3)]
    for writer in writers:
        writer.start()
    store, seen = Store(str(tmp_path)), 0
    while any(writer.is_alive() for writer in writers):
        there = list((tmp_path / "cells").rglob("*.json"))
        found = store.find([KEY])
        assert not there or KEY in found
        seen += bool(found)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert seen
    assert len(list((tmp_path / "cells" / "ab").iterdir())) == 1


def test_a_place_that_refuses_costs_the_results_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "cells").write_text("in the way")
    store = Store(str(tmp_path))
    assert store.find([KEY]) == {}
    store.put(entry())
    store.put(entry())
    assert store.flush().startswith(f"cannot write results in {tmp_path}")


def test_a_place_that_nothing_can_reach_is_an_error_at_once() -> None:
    with pytest.raises(UsageError, match="--results nope://a/b: Protocol not known"):
        Store("nope://a/b")


def test_pruning_takes_what_was_longest_unused(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    keys = [f"{number:02x}" + "0" * 62 for number in range(5)]
    for key in keys:
        store.put(entry(key=key))
    now = time.time()
    for age, key in enumerate(keys):
        (path,) = tmp_path.rglob(f"{key}.json")
        os.utime(path, (now - 1000 * age, now - 1000 * age))
    size = store.usage().size // 5
    assert store.usage().cells == 5
    assert list(store.find([keys[4]])) == [keys[4]]  # used now
    assert store.prune(max_size=3.5 * size).cells == 2
    assert set(store.find(keys)) == {keys[0], keys[1], keys[4]}
    for key in (keys[1],):
        (path,) = tmp_path.rglob(f"{key}.json")
        os.utime(path, (now - 5000, now - 5000))
    assert store.prune(max_age=4000).cells == 1
    assert set(store.find(keys)) == {keys[0], keys[4]}


def test_pruning_leaves_what_is_not_the_stores_own(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    store = Store(str(tmp_path))
    store.put(entry())
    store.note("ee" + "0" * 62, b"{}")
    draft = tmp_path / "cells" / "ab" / ".draft"
    draft.write_text("")
    os.utime(draft, (1, 1))
    assert store.prune(max_age=1e9).files == 1  # the draft of a writer that was killed
    assert store.prune(max_size=0).files == 2
    assert store.usage().files == 0
    assert (tmp_path / "mine.txt").exists()


def test_places_without_files_are_pruned_by_when_they_were_written(place: str) -> None:
    store = Store(place)
    store.put(entry())
    assert store.flush() == ""
    assert store.usage().cells == 1
    assert store.prune(max_age=3600).files == 0
    assert store.prune(max_size=0).cells == 1
    assert Store(place).find([KEY]) == {}


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12))
@settings(max_examples=25, deadline=None)
def test_a_store_is_a_table_of_keys(steps: list[tuple[int, bool]]) -> None:
    store = Store(f"memory://table-{time.monotonic_ns()}")
    expected: set[str] = set()
    for number, is_put in steps:
        key = f"{number:02x}" + "0" * 62
        if is_put:
            store.put(entry(key=key))
            assert store.flush() == ""
            expected.add(key)
        assert (key in store.find([key])) is (key in expected)
    assert store.usage().cells == len(expected)
