"""Run the same cells in several releases, one after the other, each a run of its own.

The folder has one run folder a release and ``releases.json``, which names them in the order in
which they are held against each other.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.errors import ReleaseError
from harness.extras.releases.available import Release
from harness.extras.releases.environment import Say, of_process, python
from harness.record.folder import replace_file
from harness.vendors.versions import PACKAGE

INDEX_FILE = "releases.json"
_RED = 1  # pytest.ExitCode.TESTS_FAILED: the run ended, and something in it is red


class Ran(msgspec.Struct, kw_only=True):
    """One release of a comparison: its version, its run folder relative to the index, and what
    the run exited with; None while it has not ended."""

    release: str
    folder: str
    status: int | None = None


class Index(msgspec.Struct, kw_only=True):
    """``releases.json``: the releases in their order, and what every run was asked for."""

    releases: list[Ran] = []
    options: list[str] = []


def run(releases: Sequence[Release], folder: Path, options: Sequence[str], say: Say = print) -> int:
    """Run ``conform run`` in each release.

    Args:
        releases: in the order in which they are compared.
        folder: where the runs go; it is made.
        options: those of ``conform run``, the same for all.
        say: is told what begins.

    Returns:
        0 when every run was green, 1 when one ended red, else what the worst exited with.

    Raises:
        ReleaseError: two are the same, or one cannot be installed; runs that ended stay.
    """
    names = [release.name for release in releases]
    if len(set(names)) < len(names):
        raise ReleaseError(f"a release is named twice: {', '.join(names)}")
    if (folder / INDEX_FILE).exists():
        raise ReleaseError(f"{folder} already holds a comparison; choose another folder")
    index = Index(
        releases=[Ran(release=name, folder=name) for name in names], options=list(options)
    )
    # All of them before the first run, which may take hours.
    pythons = [python(release, say) for release in releases]
    folder.mkdir(parents=True, exist_ok=True)
    write_index(folder, index)
    for number, (ran, interpreter) in enumerate(zip(index.releases, pythons, strict=True), 1):
        say(f"{PACKAGE} {ran.release} ({number} of {len(names)})")
        ran.status = run_one(interpreter, folder / ran.folder, options)
        write_index(folder, index)
    found = [ran.status or 0 for ran in index.releases]
    return max(found, key=lambda status: (status not in (0, _RED), status))


def run_one(interpreter: Path, folder: Path, options: Sequence[str], *, quiet: bool = False) -> int:
    """One run with the packages of an interpreter; its exit code.

    Args:
        interpreter: of a release's environment.
        folder: of the record.
        options: of ``conform run``.
        quiet: print nothing.
    """
    asked = [str(interpreter), "-m", "harness.cli", "run", "--run-dir", str(folder), *options]
    to = subprocess.DEVNULL if quiet else None
    return subprocess.run(asked, check=False, env=of_process(), stdout=to, stderr=to).returncode


def write_index(folder: Path, index: Index) -> None:
    """Write ``releases.json``, whole or not at all.

    Raises:
        ReleaseError: the disk refuses.
    """
    try:
        replace_file(folder / INDEX_FILE, msgspec.json.format(msgspec.json.encode(index)))
    except OSError as error:
        raise ReleaseError(f"cannot write {folder / INDEX_FILE}: {error.strerror}") from error


def read_index(folder: Path) -> Index:
    """Read ``releases.json``.

    Raises:
        ReleaseError: there is none, or it is none.
    """
    try:
        return msgspec.json.decode((folder / INDEX_FILE).read_bytes(), type=Index)
    except OSError as error:
        raise ReleaseError(
            f"{folder} has no {INDEX_FILE}; conform releases run makes such a folder"
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ReleaseError(f"{folder / INDEX_FILE} cannot be read: {error}") from error
