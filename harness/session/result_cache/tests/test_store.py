"""A stored entry is read back intact or not at all; red results are never stored."""

import os
import threading
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from harness.errors import UsageError
from harness.model.limitation import NOT_RUN_ERROR
from harness.record.cell import Cell, LimitationRef, Status
from harness.session.result_cache.entry import StoredResult, is_cacheable
from harness.session.result_cache.store import ResultStore
from reports.tests.runs import numerics

KEY = "ab" * 32


def cell(status: Status = Status.PASSED, **fields: object) -> Cell:
    given: dict[str, object] = {
        "runtime": "emulated", "stages": {"lower": 1.0}, "seconds": 1.0, "program_bytes": 9,
        "numerics": [numerics()],
    }  # fmt: skip
    if status is not Status.PASSED:
        given |= {"numerics": [], "runtime": "none"}
    return Cell(case="add/a", target="null:eager", status=status, **{**given, **fields})  # type: ignore[arg-type]


def entry(key: str = KEY, made: Cell | None = None) -> StoredResult:
    return StoredResult.from_cell(key, made or cell(), run="night", claim="")


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ResultStore:
    memory = request.param == "memory"
    return ResultStore(f"memory://{uuid.uuid4()}" if memory else str(tmp_path / "results"))


def test_a_stored_result_is_found(store: ResultStore) -> None:
    store.put(entry())
    assert store.flush() == ""
    found = store.find([KEY, "cd" * 32])
    assert set(found) == {KEY}
    record = found[KEY].load_cell("add/a@null:eager")
    assert record is not None
    assert record.cached is not None
    assert record.cached.run == "night"
    assert record.seconds == 1.0
    assert found[KEY].load_cell("add/b@null:eager") is None


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        (cell(), True),
        (cell(Status.UNSUPPORTED, error="not in the profile"), True),
        (cell(Status.MISMATCH, stage="compare", error="wrong"), False),
        (cell(Status.FAILED, stage="lower", error="raises"), False),
        (cell(Status.CRASHED, error="Fatal Python error"), False),
        (cell(Status.TIMEOUT, error="Timeout (0:05:00)!"), False),
        (cell(Status.XPASSED, error="passed although"), False),
        (cell(Status.UNAVAILABLE, error="no Mac"), False),
    ],
)
def test_results_that_are_stored(made: Cell, kept: bool) -> None:
    assert is_cacheable(made) is kept


def test_a_cell_that_a_limitation_did_not_run_is_not_stored() -> None:
    reason = LimitationRef(reason="known")
    failed = {"runtime": "none", "stage": "lower", "error": "raises", "limitation": reason}
    assert is_cacheable(cell(Status.XFAILED, **failed))
    assert not is_cacheable(cell(Status.XFAILED, **{**failed, "error": NOT_RUN_ERROR}))
    assert not is_cacheable(cell(Status.UNSUPPORTED, **{**failed, "error": NOT_RUN_ERROR}))
    died = "Fatal Python error: Segmentation fault"
    assert not is_cacheable(cell(Status.XFAILED, **{**failed, "error": died}))


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_damaged_entry_is_a_miss(at: int, byte: int) -> None:
    content = entry().to_bytes()
    at %= len(content)
    damaged = content[:at] + bytes([byte]) + content[at + 1 :]
    found = StoredResult.from_bytes(damaged, KEY)
    assert found is None or found == entry_of(content)
    assert StoredResult.from_bytes(content[:at], KEY) is None
    assert StoredResult.from_bytes(content, "cd" * 32) is None


def entry_of(content: bytes) -> StoredResult:
    found = StoredResult.from_bytes(content, KEY)
    assert found is not None
    return found


def test_many_writers_of_one_key_leave_one_whole_entry(tmp_path: Path) -> None:
    made = entry()

    def write() -> None:
        for _ in range(20):
            ResultStore(str(tmp_path)).put(made)
            assert ResultStore(str(tmp_path)).find([KEY])[KEY] == made

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{KEY}.json"]


def test_a_store_that_cannot_be_written_is_reported_once_and_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    store = ResultStore(str(file))
    store.put(entry())
    store.put(entry("cd" * 32))
    assert store.find([KEY]) == {}
    assert "cannot write results" in store.flush()


def test_a_store_with_an_unknown_protocol_is_misuse() -> None:
    with pytest.raises(UsageError, match="--result-cache nosuch://bucket"):
        ResultStore("nosuch://bucket/results")


def test_the_least_recently_used_entry_is_removed_first(tmp_path: Path) -> None:
    store = ResultStore(str(tmp_path))
    names = [f"{number:02x}" * 32 for number in range(5)]
    for age, name in enumerate(names):
        store.put(entry(name))
        path = tmp_path / "cells" / name[:2] / f"{name}.json"
        os.utime(path, (time.time() - 1000 * (age + 1),) * 2)
    store.find([names[4]])  # the oldest is used
    size = store.compute_usage().size
    gone = store.prune(max_size=size * 2 / 5)
    assert gone.cells == 3
    assert set(store.find(names)) == {names[0], names[4]}
    assert store.prune(max_age=500).cells == 0
    assert store.compute_usage().cells == 2
    assert store.prune(max_size=0).cells == 2
    assert store.compute_usage().oldest is None
