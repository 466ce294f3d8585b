"""A folder of runs as a history: runs that are read, stored, reported and omitted."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from harness.errors import RunUnreadable, UnknownCell
from harness.record.cell import Status
from harness.record.folder import CELLS_FILE, RUN_FILE, load
from harness.record.run import MergedPart
from reports import history
from reports.history import compact, store
from reports.history.tests.days import START, environment, night
from reports.outcome import CellOutcome
from reports.tests.runs import cell, numerics


def test_runs_and_cells_in_order(tmp_path: Path) -> None:
    night(tmp_path, 1, [cell("b"), cell("a", "tosa:fp")], name="later")
    night(tmp_path, 0, [cell("a")], name="zzz", expected=["a@xnnpack:fp32", "c@mlx:fp32"])
    past = history.load(tmp_path)
    assert past.runs["run"].tolist() == ["zzz", "later"]
    assert past.runs["complete"].tolist() == [False, True]
    assert past.runs["missing"].tolist() == [1, 0]
    assert past.runs["line"].tolist() == ["Linux x86_64"] * 2
    assert set(past.cells["id"]) == {
        "a@xnnpack:fp32", "c@mlx:fp32", "b@xnnpack:fp32", "a@tosa:fp",
    }  # fmt: skip
    at = past.cells["id"].tolist().index("c@mlx:fp32")
    assert history.OUTCOMES[past.outcomes[0, at]] is CellOutcome.NOT_RUN
    assert past.outcomes[1, at] == history.ABSENT
    assert past.problems == []


def test_numbers_survive_the_copy(tmp_path: Path) -> None:
    output = numerics(sqnr_db=float("inf"), bound_used=0.25)
    failed = cell("b", status=Status.FAILED, numerics=[], seconds=0.0)
    night(tmp_path, 0, [cell("a", numerics=[output]), failed])
    for _ in range(2):
        past = history.load(tmp_path)
        assert past.metric("sqnr_db")[0].tolist()[0] == float("inf")
        assert past.metric("program_bytes")[0].tolist() == [2048, 2048]
        row = past.series("a@xnnpack:fp32").iloc[0]
        assert (row["bound_used"], row["seconds"], row["delegates"]) == (0.25, 0.45, 1)
        empty = past.series("b@xnnpack:fp32").iloc[0]
        assert pd.isna(empty["sqnr_db"])
        assert pd.isna(empty["seconds"])
    with pytest.raises(KeyError, match="there are sqnr_db"):
        past.metric("speed")
    with pytest.raises(UnknownCell, match="no cell"):
        past.series("nothing@tosa:fp")


# --- compact copies ---------------------------------------------------------------------------


def copies(root: Path) -> list[Path]:
    return sorted((root / store.CACHE).glob("*.parquet"))


def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that are read in full from here on."""
    seen: list[Path] = []

    def spy(path: Path) -> Any:
        seen.append(path)
        return load(path)

    monkeypatch.setattr(compact, "load", spy)
    return seen


def test_a_run_is_read_once_and_again_when_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [night(tmp_path, number, [cell("a")]) for number in range(3)]
    seen = reads(monkeypatch)
    history.load(tmp_path)
    history.load(tmp_path)
    assert seen == folders
    with (folders[1] / CELLS_FILE).open("ab") as file:
        file.write(cell("b").to_json().encode() + b"\n")
    past = history.load(tmp_path)
    assert seen == [*folders, folders[1]]
    assert "b@xnnpack:fp32" in set(past.cells["id"])
    assert len(copies(tmp_path)) == 3  # the stale one is gone
    found = (folders[2] / CELLS_FILE).stat()
    os.utime(folders[2] / CELLS_FILE, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    history.load(tmp_path)
    assert seen[-1] == folders[2]
    left = tmp_path / store.CACHE / ".left.draft"
    left.touch()
    os.utime(left, (0, 0))
    shutil.rmtree(folders[0])
    assert len(history.load(tmp_path).runs) == 2
    assert len(list((tmp_path / store.CACHE).iterdir())) == 2


@pytest.mark.parametrize("harm", ["cut", "empty", "garbage", "other"])
def test_a_damaged_copy_is_recreated(tmp_path: Path, harm: str) -> None:
    night(tmp_path, 0, [cell("a")])
    before = history.load(tmp_path)
    (file,) = copies(tmp_path)
    whole = file.read_bytes()
    if harm == "other":
        pq.write_table(pq.read_table(file).replace_schema_metadata({}), file)
    else:
        file.write_bytes(
            {"cut": whole[: len(whole) // 2], "empty": b"", "garbage": b"x" * 99}[harm]
        )
    after = history.load(tmp_path)
    assert after.outcomes.tolist() == before.outcomes.tolist()
    assert (tmp_path / store.CACHE / file.name).read_bytes() == whole


def test_a_copy_that_vanishes_is_replaced_by_the_run(tmp_path: Path) -> None:
    folder = night(tmp_path, 0, [cell("a")])
    past = history.load(tmp_path)
    copies(tmp_path)[0].unlink()
    assert past.metric("seconds").tolist() == [[0.45]]
    past = history.load(tmp_path)
    copies(tmp_path)[0].unlink()
    with (folder / CELLS_FILE).open("ab") as file:
        file.write(cell("b").to_json().encode() + b"\n")
    with pytest.raises(RunUnreadable, match="changed while"):
        past.metric("delegates")


def test_with_a_full_disk_the_history_is_read_without_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night(tmp_path, 0, [cell("a")])
    night(tmp_path, 1, [cell("a")])

    def full(table: object, file: Path, **_: object) -> None:
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compact.pq, "write_table", full)
    past = history.load(tmp_path)
    assert past.metric("seconds").tolist() == [[0.45], [0.45]]
    (problem,) = past.problems
    assert "2 compact copies cannot be written" in problem
    assert "No space left on device" in problem
    assert list((tmp_path / store.CACHE).iterdir()) == []
    monkeypatch.undo()
    assert history.load(tmp_path).problems == []


def test_a_file_in_place_of_the_store_is_reported(tmp_path: Path) -> None:
    night(tmp_path, 0, [cell("a")])
    (tmp_path / store.CACHE).write_text("mine")
    assert "cannot be written" in history.load(tmp_path).problems[0]
    assert (tmp_path / store.CACHE).read_text() == "mine"


def test_no_cache_leaves_nothing(tmp_path: Path) -> None:
    night(tmp_path, 0, [cell("a")])
    assert len(history.load(tmp_path, cache=False).runs) == 1
    assert not (tmp_path / store.CACHE).exists()


def test_concurrent_loads_agree(tmp_path: Path) -> None:
    for number in range(6):
        night(tmp_path, number, [cell(f"case{each}") for each in range(30)])
    results: list[Any] = []
    starts = [
        threading.Thread(target=lambda: results.append(history.load(tmp_path))) for _ in range(4)
    ]
    for thread in starts:
        thread.start()
    for thread in starts:
        thread.join()
    assert [result.problems for result in results] == [[]] * 4
    assert all((result.outcomes == results[0].outcomes).all() for result in results)
    assert len(copies(tmp_path)) == 6
    assert len(list((tmp_path / store.CACHE).iterdir())) == 6


# --- runs that are not whole ------------------------------------------------------------------


def test_damaged_runs_are_reported(tmp_path: Path) -> None:
    night(tmp_path, 0, [cell("a")], name="good")
    cut = night(tmp_path, 1, [cell("a"), cell("b")], name="cut")
    with (cut / CELLS_FILE).open("ab") as file:
        file.write(b'{"case": "c", "tar')
    (night(tmp_path, 2, [cell("a")], name="garbled") / RUN_FILE).write_text("{")
    (night(tmp_path, 3, [cell("a")], name="headless") / RUN_FILE).unlink()
    night(tmp_path, 4, [cell("a")], name="timeless", started="")
    new = night(tmp_path, 5, [cell("a")], name="newer") / RUN_FILE
    new.write_text(new.read_text().replace('"schema": ', '"schema": 9'))
    (tmp_path / "notes").mkdir()
    for _ in range(2):
        past = history.load(tmp_path)
        assert past.runs["run"].tolist() == ["good", "cut"]
        said = "\n".join(past.problems)
        assert len(past.problems) == 5
        for part in ("cut: cells.jsonl line 3", "garbled", "headless", "timeless", "newer"):
            assert part in said
        assert past.runs["complete"].tolist() == [True, False]
    with pytest.raises(RunUnreadable, match="no readable run"):
        history.load(tmp_path / "notes")
    with pytest.raises(RunUnreadable, match="not a folder"):
        history.load(tmp_path / "nowhere")


def test_a_killed_run_counts_its_records(tmp_path: Path) -> None:
    both = [cell("a"), cell("b")]
    night(tmp_path, 0, both)
    night(tmp_path, 1, both[:1], expected=[each.id for each in both], end=False)
    past = history.load(tmp_path)
    assert past.runs["complete"].tolist() == [True, False]
    assert "killed" in past.runs["notes"].iloc[1]
    last = history.trends(past).iloc[-1]
    assert (last["cells"], last["passed"], last["not_run"], last["incomplete"]) == (2, 1, 1, 1)
    assert last["pass_rate"] == 0.5


def test_long_names_and_slashes(tmp_path: Path) -> None:
    odd = ["x" * 300, "a/../../b", "../../../etc/passwd", "é/ü", "a|b*[c]"]
    name = "n" * 200
    night(tmp_path, 0, [cell(each) for each in odd], name=name)
    past = history.load(tmp_path)
    assert past.cells["case"].tolist() == sorted(odd)
    for each in odd:
        assert past.series(f"{each}@xnnpack:fp32")["run"].tolist() == [name]
        assert len(past.select(cell=f"{each}@xnnpack:fp32").cells) == 1
    assert {path.name for path in tmp_path.iterdir()} == {name, store.CACHE}


def test_a_merged_run_is_its_parts(tmp_path: Path) -> None:
    linux, mac = environment("c0"), environment("c0", platform="Darwin 24", machine="arm64")
    started = START.isoformat()
    parts = [
        MergedPart(name="linux", started=started, complete=True, targets=["xnnpack:fp32"],
                   expected=2, environment=linux),
        MergedPart(name="mac", started=started, targets=["mlx:fp32"], expected=2, environment=mac),
    ]  # fmt: skip
    cells = [
        cell("a", merged_part="linux"),
        cell("b", merged_part="linux"),
        cell("a", "mlx:fp32", merged_part="mac"),
    ]
    expected = [*(each.id for each in cells), "b@mlx:fp32"]
    night(tmp_path, 0, cells, name="both", expected=expected, merged_from=parts)
    past = history.load(tmp_path)
    assert past.runs["run"].tolist() == ["both (linux)", "both (mac)"]
    assert past.runs["line"].tolist() == ["Linux x86_64", "Darwin arm64"]
    assert past.runs["complete"].tolist() == [True, False]
    assert past.runs["missing"].tolist() == [0, 1]
    assert history.trends(past)["cells"].tolist() == [2, 2]
    # The part's own folder is the same run, which counts once.
    night(tmp_path, 0, cells[:2], name="linux-1", environment=linux)
    # Another shard of the same host and second is another run.
    night(tmp_path, 0, [cell("c")], name="linux-0", environment=linux)
    past = history.load(tmp_path)
    assert past.runs["run"].tolist() == ["both (mac)", "linux-0", "linux-1"]
    assert past.problems == ["both (linux) is also in the folder as linux-1; it counts once"]


def test_a_missing_cell_belongs_to_the_incomplete_part(tmp_path: Path) -> None:
    parts = [
        MergedPart(name="one", started=START.isoformat(), complete=True, targets=["tosa:fp"]),
        MergedPart(name="two", started=START.isoformat(), targets=["tosa:fp"]),
        MergedPart(name="three", started=START.isoformat(), targets=["mlx:fp32"]),
    ]
    night(tmp_path, 0, [], name="all", expected=["a@tosa:fp"], merged_from=parts)
    runs = history.load(tmp_path).runs.set_index("run")
    assert runs["missing"].to_dict() == {"all (one)": 0, "all (two)": 1, "all (three)": 0}
    assert runs["complete"].to_dict() == {"all (one)": True, "all (two)": False,
                                          "all (three)": False}  # fmt: skip
