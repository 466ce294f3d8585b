"""Which files count as a change of the code; two different changes have different digests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.record.host import Environment, read_environment
from harness.record.revision import Revision, read_revision


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "code.py").write_text("x = 1\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (["init", "-q"], ["add", "code.py"], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


def test_untracked_files_are_no_changes(checkout: Path) -> None:
    (checkout / "notes.txt").write_text("buy milk\n")
    found = read_environment(checkout)
    assert found.git_dirty is False
    assert found.git_digest is None
    assert found.revision == str(found.git_commit)[:12]


def test_two_changes_have_two_digests_and_one_has_one(checkout: Path) -> None:
    seen = set()
    for value in (2, 3, 2):
        (checkout / "code.py").write_text(f"x = {value}\n")
        found = read_environment(checkout)
        assert found.git_dirty
        assert found.revision.endswith(f"with local changes {found.git_digest}")
        seen.add(found.git_digest)
    assert len(seen) == 2


def test_a_folder_without_git_and_an_old_record_are_described(tmp_path: Path) -> None:
    assert read_revision(tmp_path) == Revision(None, None, None)
    old = Environment(git_commit="a" * 40, git_dirty=True)
    assert old.revision == "aaaaaaaaaaaa with local changes"
