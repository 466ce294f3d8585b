"""``--changed-since`` runs only cells that a change can affect."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.pytest_plugin.cached.changed_since import ChangedSelection, list_changed_files
from harness.pytest_plugin.tests.sessions import WORKERS, run
from harness.session.result_cache.dependencies import Sources

ROOT = Path(__file__).parents[4]
OTHER = "from suites.build import case\nCASES = [case('mul/e')]\n"
BUILD = "def case(name):\n    from suites import small\n    return small.case(name)\n"


def git(folder: Path, *arguments: str) -> None:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
           "GIT_COMMITTER_EMAIL": "a@b"}  # fmt: skip
    command = ["git", "-c", "init.defaultBranch=main", *arguments]
    subprocess.run(command, cwd=folder, env={**os.environ, **who}, check=True, capture_output=True)


@pytest.fixture
def checkout(project: Path) -> Path:
    """A project under git: other.py depends on build.py and small.py, small.py only on itself."""
    (project / "suites" / "other.py").write_text(OTHER)
    (project / "suites" / "build.py").write_text(BUILD)
    (project / "suites" / "gone.py").write_text("CASES = []\n")
    (project / "notes.md").write_text("a")
    (project / ".gitignore").write_text("__pycache__/\nrun*/\n.pytest_cache/\n")
    git(project, "init")
    git(project, "add", "-A")
    git(project, "commit", "-m", "all")
    return project


def cells(checkout: Path, *arguments: str, workers: str | None = None) -> set[str]:
    """Selected cells: listed, or run by this number of workers."""
    way = ("0", "--collect-only", "-q") if workers is None else (workers, "-v")
    result = run(checkout, "-n", *way, "--changed-since", "HEAD", *arguments)
    return set(re.findall(r"::(\w+/\w+)@null", result.stdout))


SMALL = {"add/a", "add/b", "death/now", "add/c", "sub/d"}


def test_cells_are_selected_by_what_they_hang_on(checkout: Path) -> None:
    build = checkout / "suites" / "build.py"
    build.write_text(f"# changed\n{BUILD}")
    assert cells(checkout) == {"mul/e"}
    git(checkout, "add", "-A")  # staged
    assert cells(checkout) == {"mul/e"}
    git(checkout, "commit", "-m", "build")
    assert cells(checkout) == set()
    assert cells(checkout, "--changed-since", "HEAD~1") == {"mul/e"}
    suite = checkout / "suites" / "small.py"
    suite.write_text(f"# changed\n{suite.read_text()}")
    assert cells(checkout) == {"mul/e", *SMALL}


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("suites/new.py", "from suites.small import case\nCASES = [case('new/f')]\n", {"new/f"}),
        ("suites/limitations.py", "LIMITATIONS = []\n", {"mul/e", *SMALL}),
        ("suites/data.json", "{}", {"mul/e", *SMALL}),
        ("conftest.py", None, {"mul/e", *SMALL}),
        ("pytest.ini", None, {"mul/e", *SMALL}),
        ("tox.ini", "", {"mul/e", *SMALL}),
        ("notes.md", "b", set()),
        ("suites/README.md", "b", set()),
        ("docs/page.py", "", set()),
    ],
)
def test_what_was_added_or_is_of_all(
    checkout: Path, file: str, content: str | None, expected: set[str]
) -> None:
    path = checkout / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(path.read_text() + "\n" if content is None else content)
    assert cells(checkout) == expected


@pytest.mark.nightly
def test_what_was_removed_affects_what_would_import_it(checkout: Path) -> None:
    (checkout / "suites" / "build.py").write_text(
        "try:\n    from suites import extra\nexcept ImportError:\n    pass\n" + BUILD
    )
    (checkout / "suites" / "extra.py").write_text("")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-m", "extra")
    (checkout / "suites" / "gone.py").unlink()
    assert cells(checkout) == set()
    (checkout / "suites" / "extra.py").unlink()
    assert cells(checkout) == {"mul/e"}


@pytest.mark.nightly
@pytest.mark.parametrize("workers", WORKERS)
def test_it_runs_what_it_selects(checkout: Path, workers: str) -> None:
    (checkout / "suites" / "build.py").write_text(f"# changed\n{BUILD}")
    assert cells(checkout, workers=workers) == {"mul/e"}
    assert (checkout / "run" / "run.json").exists()


@pytest.mark.parametrize("workers", WORKERS)
def test_with_nothing_affected_nothing_runs_and_no_folder_is_made(
    checkout: Path, workers: str
) -> None:
    (checkout / "notes.md").write_text("b")
    result = run(checkout, "-n", workers, "--changed-since", "HEAD")
    assert result.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "no selected cell is affected by changes since HEAD" in result.stdout
    assert not (checkout / "run").exists()


@pytest.mark.parametrize("revision", ["nowhere", "--output=x", "HEAD:notes.md"])
def test_a_revision_that_is_none_is_an_error(checkout: Path, revision: str) -> None:
    result = run(checkout, "-n", "0", f"--changed-since={revision}")
    assert result.returncode == 4
    assert "git knows no revision" in result.stderr
    assert not (checkout / "run").exists()


def test_a_folder_without_git_is_an_error(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    with pytest.raises(UsageError, match="in no checkout"):
        list_changed_files(project, "HEAD")


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("file", "portable", "tosa"),
    [
        ("harness/numerics/bounds.py", True, True),
        ("harness/pipeline/tests/test_x.py", False, False),
        ("harness/cli/run_commands.py", False, False),
        ("reports/facts.py", False, False),
        ("docs/gate.md", False, False),
        ("backends/tosa/backend.py", False, True),
        ("backends/portable.py", True, False),
        ("backends/__init__.py", True, True),
        ("backends/tosa/removed.json", False, True),
        ("suites/ops/activation.py", True, True),
        ("suites/ops/conv.py", False, False),
        ("pyproject.toml", True, True),
    ],
)
def test_parts_of_this_project_affect_what_hangs_on_them(
    file: str, portable: bool, tosa: bool
) -> None:
    only = ChangedSelection(Sources([ROOT / "suites"], ROOT), [ROOT / file])
    module = ROOT / "suites/ops/activation.py"
    assert only.is_affected(module, "portable") is portable
    assert only.is_affected(module, "tosa") is tosa
    assert only.is_affected(module, None) is (portable or tosa)
