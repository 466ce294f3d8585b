"""Runs the same cells on several releases, one after the other, each as a run of its own.

The folder has one run folder for each release and ``releases.json``, which lists them in the order
of comparison.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.errors import ReleaseError
from harness.extras.releases.available import Release
from harness.extras.releases.environment import (
    ProgressCallback,
    ensure_interpreter,
    process_environment,
)
from harness.record.folder import write_atomically
from harness.vendors.versions import PACKAGE

INDEX_FILE = "releases.json"
_RED = 1  # pytest.ExitCode.TESTS_FAILED: the run completed with a red cell


class ReleaseRun(msgspec.Struct, kw_only=True):
    """The run of one release: its version, its run folder relative to the index, and its exit code;
    None until it has ended.
    """

    release: str
    folder: str
    status: int | None = None


class ReleaseIndex(msgspec.Struct, kw_only=True):
    """``releases.json``: the runs in order, and the options of every run."""

    releases: list[ReleaseRun] = []
    options: list[str] = []


def run_on_releases(
    releases: Sequence[Release],
    folder: Path,
    options: Sequence[str],
    on_progress: ProgressCallback = print,
) -> int:
    """Run ``conform run`` on each release.

    Args:
        releases: the releases in order of comparison.
        folder: folder of the runs; it is created.
        options: options of ``conform run``, the same for all.
        on_progress: called with a line of text for each step.

    Returns:
        0 when every run was green, 1 when one was red, else the highest exit code.

    Raises:
        ReleaseError: two releases are the same, or one cannot be installed; finished runs are kept.
    """
    names = [release.name for release in releases]
    if len(set(names)) < len(names):
        raise ReleaseError(f"a release is named twice: {', '.join(names)}")
    if (folder / INDEX_FILE).exists():
        raise ReleaseError(f"{folder} already holds a comparison; choose another folder")
    index = ReleaseIndex(
        releases=[ReleaseRun(release=name, folder=name) for name in names], options=list(options)
    )
    # Create all environments before the first run, which may take hours.
    pythons = [ensure_interpreter(release, on_progress) for release in releases]
    folder.mkdir(parents=True, exist_ok=True)
    write_index(folder, index)
    for number, (ran, interpreter) in enumerate(zip(index.releases, pythons, strict=True), 1):
        on_progress(f"{PACKAGE} {ran.release} ({number} of {len(names)})")
        ran.status = run_release(interpreter, folder / ran.folder, options)
        write_index(folder, index)
    found = [ran.status or 0 for ran in index.releases]
    return max(found, key=lambda status: (status not in (0, _RED), status))


def run_release(
    interpreter: Path, folder: Path, options: Sequence[str], *, quiet: bool = False
) -> int:
    """Run ``conform run`` with the interpreter of a release; return its exit code.

    Args:
        interpreter: interpreter of the release's environment.
        folder: the run folder.
        options: options of ``conform run``.
        quiet: print nothing.
    """
    asked = [str(interpreter), "-m", "harness.cli", "run", "--run-dir", str(folder), *options]
    to = subprocess.DEVNULL if quiet else None
    return subprocess.run(
        asked, check=False, env=process_environment(), stdout=to, stderr=to
    ).returncode


def write_index(folder: Path, index: ReleaseIndex) -> None:
    """Write ``releases.json`` atomically.

    Raises:
        ReleaseError: it cannot be written.
    """
    try:
        write_atomically(folder / INDEX_FILE, msgspec.json.format(msgspec.json.encode(index)))
    except OSError as error:
        raise ReleaseError(f"cannot write {folder / INDEX_FILE}: {error.strerror}") from error


def read_index(folder: Path) -> ReleaseIndex:
    """Read ``releases.json``.

    Raises:
        ReleaseError: it does not exist, or is not valid.
    """
    try:
        return msgspec.json.decode((folder / INDEX_FILE).read_bytes(), type=ReleaseIndex)
    except OSError as error:
        raise ReleaseError(
            f"{folder} has no {INDEX_FILE}; conform releases run makes such a folder"
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ReleaseError(f"{folder / INDEX_FILE} cannot be read: {error}") from error
