"""``conform cache``: every folder below the user's cache folder is listed and can be emptied."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import platformdirs
import pytest
from click.testing import CliRunner, Result

from harness import cache_folders
from harness.cli.__main__ import main

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "executorch-conform"


def conform(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["cache", *arguments])


def write(folder: Path, name: str, size: int, unused: float) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    then = time.time() - unused
    os.utime(file, (then, then))
    return file


def test_no_cache_writes_to_an_unlisted_folder() -> None:
    asking = re.compile(r"user_cache_(path|dir)|XDG_CACHE")
    found = {
        str(path.relative_to(ROOT))
        for package in ("harness", "backends", "reports")
        for path in (ROOT / package).rglob("*.py")
        if "tests" not in path.parts and asking.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"harness/cache_folders.py"}
    named = re.compile(r'cache_folder\("([\w-]+)"\)')
    names = {
        name
        for package in ("harness", "backends", "reports")
        for path in (ROOT / package).rglob("*.py")
        for name in named.findall(path.read_text(encoding="utf-8"))
    }
    assert names == set(cache_folders.CACHES)
    documented = (ROOT / "docs" / "incremental.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in documented for name in cache_folders.CACHES)


def test_all_are_listed(below: Path) -> None:
    write(below / "metal-host", "one/library.so", 2_000_000, 86400 * 3)
    shown = conform("list")
    assert shown.exit_code == 0, shown.output
    for name in cache_folders.CACHES:
        assert re.search(rf"^\s*{name} +\d", shown.output, re.M), shown.output
    [line] = [line for line in shown.output.splitlines() if "metal-host" in line]
    assert "2 MB" in line
    assert str(below) in shown.output


def test_an_empty_folder_has_its_own_age(below: Path) -> None:
    (below / "metal-generated" / "empty").mkdir(parents=True)
    (entry,) = cache_folders.list_entries("metal-generated")
    assert entry.size == 0
    assert entry.unused < 60


def test_the_least_recently_used_is_removed_first(below: Path) -> None:
    folder = below / "metal-generated"
    old = write(folder, "old/entry", 600, 900.0)
    new = write(folder, "new/entry", 600, 10.0)
    other = write(below / "templates", "page.cache", 600, 5000.0)
    gone = conform("prune", "metal-generated", "--max-size", "1k")
    assert gone.exit_code == 0, gone.output
    assert "metal-generated: removed 1 entry" in gone.output
    assert not old.exists()
    assert new.exists()
    assert other.exists()
    assert conform("prune", "--max-age", "1h").exit_code == 0
    assert new.exists()
    assert not other.exists()


def test_clearing_keeps_folders_of_running_workers(below: Path) -> None:
    # Results have a store of their own, with tests of its own.
    names = set(cache_folders.CACHES) - {"results"}
    files = [write(below / name, "entry/file", 10, 1.0) for name in sorted(names)]
    done = conform("prune", "--clear")
    assert done.exit_code == 0, done.output
    assert [file.parent.parent.name for file in files if file.exists()] == ["workers"]
    assert "workers: 1 entry in use" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prune",), "give --max-size, --max-age or both; or --clear"),
        (("prune", "kernels", "--clear"), "no cache kernels; choose from: results,"),
        (("prune", "--max-size", "much"), "--max-size 'much' is not valid; write it like 500M"),
        (
            ("prune", "templates", "--clear", "--results", "x"),
            "--result-cache applies to the cache",
        ),
    ],
)
def test_nonsense_removes_nothing(below: Path, arguments: tuple[str, ...], message: str) -> None:
    file = write(below / "templates", "page.cache", 10, 5000.0)
    done = conform(*arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert file.exists()
