"""Write output files of commands, completely or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.errors import RunUnwritable
from harness.record.folder import write_atomically


def write(path: Path, content: bytes) -> None:
    """Write a file atomically, replacing an existing one. Pipes and devices such as /dev/stdout
    are written directly.

    Raises:
        RunUnwritable: the folder or the disk refuses.
    """
    try:
        if _is_stream(path):
            path.write_bytes(content)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except OSError as error:
        raise RunUnwritable(f"cannot write {path}: {error.strerror}") from error


def _is_stream(path: Path) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)
