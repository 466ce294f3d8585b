"""The folder of a site, which is replaced in one step.

All files but ``index.html`` are in a subfolder with a new name. ``index.html`` names it and is
replaced last: a killed writer leaves the old site unchanged, and a successful one removes the old
subfolder.
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
# Pages in the subfolder.
COVERAGE = "coverage.html"
MUTATION = "mutation.html"
SUPPORT = "support.html"
SENSITIVITY = "sensitivity.html"
_DATA = re.compile(r"data-[0-9a-f]{12}")


class _Marker(msgspec.Struct):
    conform_site: int


class Folder:
    """A site that is being written; see :func:`open_folder`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = f"data-{secrets.token_hex(6)}"
        self.size = 0

    def write(self, name: str, content: bytes) -> None:
        """Write one file of the new site, in a subfolder if the name has a slash.

        ``name`` must not contain text from a record.
        """
        file = self.path / self.data / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        self.size += len(content)

    def publish(self, index: str) -> None:
        """Replace ``index.html``, then remove the data of the old site."""
        write_atomically(self.path / INDEX, index.encode())
        self.size += len(index.encode())
        for entry in self.path.iterdir():
            if entry.name != self.data and _DATA.fullmatch(entry.name) and not entry.is_symlink():
                # A file that cannot be removed only costs space.
                shutil.rmtree(entry, ignore_errors=True)


def check_folder(path: Path) -> None:
    """Check that a site can be written to a folder; changes nothing.

    Raises:
        UsageError: the path has files that do not belong to a site.
    """
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder; choose another path for the site")
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
def open_folder(path: Path) -> Iterator[Folder]:
    """Open a folder to write a site; nothing is visible before :meth:`Folder.publish`.

    Raises:
        UsageError: the path has files that do not belong to a site, or another process writes it.
        RunUnwritable: the folder cannot be written.
    """
    check_folder(path)
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
            f"cannot write the site {path}: {error.strerror or error}; the old site is unchanged"
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
