"""The map of a run: written by several workers, read as it was written, and refused if damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.coverage.coverage_map import MAP_FILE, Arc, CoverageMap, MapUnreadable

ONE: dict[str, set[Arc]] = {"a.py": {(-1, 2), (2, 3), (3, -1)}, "b.py": {(-5, 6)}}
TWO: dict[str, set[Arc]] = {"a.py": ONE["a.py"], "b.py": {(-5, 7)}}


def read(path: Path) -> dict[str, dict[str, set[Arc]]]:
    with CoverageMap(path) as found:
        arcs = {number: (file, executed) for number, file, executed in found.read_arcs()}
        return {cell: dict(arcs[number] for number in ids) for cell, ids in found.read_cells()}


def test_cells_of_two_workers_share_arcs(tmp_path: Path) -> None:
    path = tmp_path / MAP_FILE
    with CoverageMap(path, create=True) as first, CoverageMap(path, create=True) as second:
        first.add_cell("one@x:y", ONE)
        second.add_cell("two@x:y", TWO)
        first.add_cell("three@x:y", TWO)
        first.add_cell("none@x:y", {})
        second.add_once([("a.py", 1), ("c.py", 4)])
        first.add_once([("a.py", 1)])
    assert read(path) == {"one@x:y": ONE, "two@x:y": TWO, "three@x:y": TWO, "none@x:y": {}}
    with CoverageMap(path) as found:
        assert len(list(found.read_arcs())) == 3
        assert len(list(found.read_arcs("b.py"))) == 2
        assert found.read_once() == {("a.py", 1), ("c.py", 4)}


def test_a_later_recording_replaces_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / MAP_FILE
    for arcs in (ONE, TWO):  # a resumed run
        with CoverageMap(path, create=True) as store:
            store.add_cell("one@x:y", arcs)
    assert read(path) == {"one@x:y": TWO}


def test_a_missing_or_damaged_map_is_refused(tmp_path: Path) -> None:
    path = tmp_path / MAP_FILE
    with pytest.raises(MapUnreadable, match="conform coverage record"):
        CoverageMap(path)
    path.write_bytes(b"no database " * 100)
    with pytest.raises(MapUnreadable, match=r"coverage\.db"):
        CoverageMap(path)
    path.unlink()
    with CoverageMap(path, create=True) as store:
        store._database.execute("PRAGMA user_version = 99")
    with pytest.raises(MapUnreadable, match="version 99"):
        CoverageMap(path)
