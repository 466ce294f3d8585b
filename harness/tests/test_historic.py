"""benchmarks.verdicts.historic undoes upstream's fixes in a copy of the installed package."""

from __future__ import annotations

import subprocess
from pathlib import Path

import executorch
import pytest

from benchmarks.verdicts.historic import list_fixes, undo

pytestmark = pytest.mark.nightly

NAME = "backends/xnnpack/operators/op_gelu.py"
INSTALLED = Path(next(iter(executorch.__path__)), NAME)


def commit(repository: Path, subject: str, text: str) -> None:
    path = repository / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for command in (["add", "-A"], [*who, "commit", "-qm", subject]):
        subprocess.run(["git", "-C", str(repository), *command], check=True, capture_output=True)


def test_a_fix_is_undone_in_a_copy_and_nowhere_else(tmp_path: Path) -> None:
    repository, after = tmp_path / "repository", INSTALLED.read_text()
    before = after.replace("import", "import  ", 1)
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    commit(repository, "First", before)
    commit(repository, "Fix the import of gelu", after)
    commit(repository, "Improve gelu", after + "# better\n")
    commit(repository, "Fix what is improved", after + "# best\n")
    newest, older = list_fixes(repository, "2000-01-01")
    assert (older.subject, older.files) == ("Fix the import of gelu", (NAME,))
    shown = [
        subprocess.run(
            ["git", "-C", str(repository), "show", "--format=", fix.commit],
            check=True, capture_output=True, text=True,
        ).stdout
        for fix in (newest, older)
    ]  # fmt: skip
    assert not undo(shown[0], newest.files, tmp_path / "one")
    assert undo(shown[1], older.files, tmp_path / "two")
    assert (tmp_path / "two" / "executorch" / NAME).read_text() == before
    assert INSTALLED.read_text() == after
