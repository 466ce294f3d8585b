"""The folder of the site: only ever our own, replaced in one step.

Everything but ``index.html`` lies in a subfolder with a new name. ``index.html`` names it and is
replaced last, so a writer that is killed leaves the old site, and one that succeeds removes the
old subfolder.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.errors import RunUnwritable, UsageError
from harness.record.folder import write_atomically

MARKER = "conform-site.json"
INDEX = "index.html"
_DATA = re.compile(r"data-[0-9a-f]{12}")


class _Marker(msgspec.Struct):
    conform_site: int


class Folder:
    """A site that is being written; :func:`opened` makes one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = f"data-{secrets.token_hex(6)}"
        self.size = 0

    def write(self, name: str, content: bytes) -> None:
        """Write one file of the new site, in a subfolder when the name has a slash.

        ``name`` is made of our own words and counters, never of text from a record.
        """
        file = self.path / self.data / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        self.size += len(content)

    def publish(self, index: str) -> None:
        """Make the new site the one that opens, and remove what the old one had."""
        write_atomically(self.path / INDEX, index.encode())
        self.size += len(index.encode())
        for entry in self.path.iterdir():
            if entry.name != self.data and _DATA.fullmatch(entry.name) and not entry.is_symlink():
                # What stays behind costs space and harms nobody.
                shutil.rmtree(entry, ignore_errors=True)


def check(path: Path) -> None:
    """Find out early whether a site can be written there; makes nothing.

    Raises:
        UsageError: something is there that is not a site of ours.
    """
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder; choose another place for the site")
    try:
        empty = not any(path.iterdir())
        ours = empty or _is_marker(path / MARKER)
    except OSError as error:
        raise RunUnwritable(f"cannot read {path}: {error.strerror}") from error
    if not ours:
        raise UsageError(
            f"{path} has files and is not a site written by conform; choose another folder, "
            "or empty it first"
        )


def _is_marker(file: Path) -> bool:
    try:
        msgspec.json.decode(file.read_bytes(), type=_Marker)
    except (OSError, msgspec.MsgspecError):
        return False
    return True


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Folder]:
    """Write a site: what is written appears with :meth:`Folder.publish`, or not at all.

    Raises:
        UsageError: something is there that is not a site of ours, or another writer is at work.
        RunUnwritable: the folder or the disk refuses.
    """
    check(path)
    folder = Folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        marker = path / MARKER
        if not marker.exists():
            write_atomically(marker, msgspec.json.encode(_Marker(conform_site=1)) + b"\n")
        with marker.open("rb") as held:
            _lock(held.fileno(), path)
            (path / folder.data).mkdir()
            try:
                yield folder
            except BaseException:
                if folder.data not in _read(path / INDEX):
                    shutil.rmtree(path / folder.data, ignore_errors=True)
                raise
    except OSError as error:
        raise RunUnwritable(
            f"cannot write the site {path}: {error.strerror or error}; the old one is as it was"
        ) from error


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _lock(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"another process is writing the site {path}; wait for it") from None
