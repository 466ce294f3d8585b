"""Which code a run was of: the commit, and what was changed on top of it."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

_DIGITS = 12


class Revision(NamedTuple):
    """The state of a checkout; None where there is none, or no git.

    Attributes:
        commit: its hash.
        dirty: whether files that git knows were changed. Others, such as notes and reports, are
            not code of the commit.
        digest: of the difference to the commit; None without one.
        home: the web page of the repository; None where it has no remote on the web.
    """

    commit: str | None
    dirty: bool | None
    digest: str | None
    home: str | None = None


def read_revision(root: Path) -> Revision:
    """The state of the checkout that a folder is in."""
    commit = run_git(root, "rev-parse", "HEAD")
    # Renames, colours and tools of the user's own settings are no part of what was changed.
    options = ("--binary", "--no-color", "--no-ext-diff", "--no-renames", "--no-textconv")
    changed = run_git(root, "diff", *options, "HEAD")
    if commit is None or changed is None:
        return Revision(_text(commit), None, None)
    home = _home(_text(run_git(root, "remote", "get-url", "origin")))
    digest = hashlib.sha256(changed).hexdigest()[:_DIGITS] if changed else None
    return Revision(_text(commit), bool(changed), digest, home)


def _home(remote: str | None) -> str | None:
    """The page of a remote: ``git@host:owner/name.git`` and ``https://host/owner/name`` alike;
    credentials in it stay here."""
    found = re.fullmatch(
        r"(?:https?://(?:[^/@]*@)?|(?:ssh://)?git@)([\w.-]+)[:/](.+?)(?:\.git)?/?", remote or ""
    )
    return f"https://{found[1]}/{found[2]}" if found else None


def _text(answer: bytes | None) -> str | None:
    return None if answer is None else answer.decode().strip()


def run_git(root: Path, *arguments: str, seconds: float = 10) -> bytes | None:
    """What git prints in a folder; None where it fails, is not there, or takes too long."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None
