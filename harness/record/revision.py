"""The code of a run: the commit, and local changes."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

_DIGITS = 12


class Revision(NamedTuple):
    """The state of a checkout; None without a checkout or without git.

    Attributes:
        commit: its hash.
        dirty: whether tracked files were changed. Untracked files, such as notes and reports, do
            not count.
        digest: digest of the difference to the commit; None without one.
        home: the web page of the repository; None if it has no remote on the web.
    """

    commit: str | None
    dirty: bool | None
    digest: str | None
    home: str | None = None


def read_revision(root: Path) -> Revision:
    """Return the state of the checkout that contains a folder."""
    commit = run_git(root, "rev-parse", "HEAD")
    # The user's settings for renames, colours and tools must not change the digest.
    options = ("--binary", "--no-color", "--no-ext-diff", "--no-renames", "--no-textconv")
    changed = run_git(root, "diff", *options, "HEAD")
    if commit is None or changed is None:
        return Revision(_text(commit), None, None)
    home = _home(_text(run_git(root, "remote", "get-url", "origin")))
    digest = hashlib.sha256(changed).hexdigest()[:_DIGITS] if changed else None
    return Revision(_text(commit), bool(changed), digest, home)


def _home(remote: str | None) -> str | None:
    """Return the web page of a remote, for ``git@host:owner/name.git`` and ``https://host/owner/name``;
    credentials are removed."""
    found = re.fullmatch(
        r"(?:https?://(?:[^/@]*@)?|(?:ssh://)?git@)([\w.-]+)[:/](.+?)(?:\.git)?/?", remote or ""
    )
    return f"https://{found[1]}/{found[2]}" if found else None


def _text(answer: bytes | None) -> str | None:
    return None if answer is None else answer.decode().strip()


def run_git(root: Path, *arguments: str, seconds: float = 10) -> bytes | None:
    """Return git's output in a folder; None if git fails, is missing, or takes too long."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None
