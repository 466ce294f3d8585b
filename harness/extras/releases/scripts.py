"""Runs Python scripts on several releases and collects their exit codes."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ReleaseError
from harness.extras.releases.available import Release
from harness.extras.releases.environment import (
    ProgressCallback,
    ensure_interpreter,
    process_environment,
)

_LIMIT = 600.0  # seconds


@dataclass(frozen=True)
class ScriptResult:
    """Exit code and output of a script. The exit code is negative for the signal that ended it."""

    status: int
    output: str

    @property
    def status_text(self) -> str:
        """The exit code, or the name of the signal."""
        if self.status >= 0:
            return str(self.status)
        return signal.Signals(-self.status).name


def run_scripts(
    releases: Sequence[Release], paths: Sequence[Path], on_progress: ProgressCallback = print
) -> Iterator[tuple[Path, list[ScriptResult]]]:
    """Run each script on each release, in an empty folder.

    Args:
        releases: the releases; missing environments are created.
        paths: the scripts.
        on_progress: called with a line of text for each step.

    Yields:
        A script and its result on each release.

    Raises:
        ReleaseError: a release cannot be installed, or there is no such script.
    """
    if missing := [str(path) for path in paths if not path.is_file()]:
        raise ReleaseError(f"there is no {', '.join(missing)}")
    pythons = [ensure_interpreter(release, on_progress) for release in releases]
    for number, path in enumerate(paths, 1):
        on_progress(f"{path.name} ({number} of {len(paths)})")
        yield path, [_run(interpreter, path) for interpreter in pythons]


def run_isolated(
    path: Path, interpreter: Path, seconds: float, *flags: str
) -> subprocess.CompletedProcess[str]:
    """Run a script without this project on its path: in an empty folder, without PYTHONPATH.

    Args:
        path: the script.
        interpreter: the Python that runs it.
        seconds: time limit.
        flags: options of the interpreter.

    Raises:
        subprocess.TimeoutExpired: it was killed.
    """
    alone = {name: text for name, text in process_environment().items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            [str(interpreter), *flags, str(path.resolve())],
            cwd=folder,
            env=alone,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )


def _run(interpreter: Path, path: Path) -> ScriptResult:
    try:
        ended = run_isolated(path, interpreter, _LIMIT)
    except subprocess.TimeoutExpired:
        return ScriptResult(-signal.SIGKILL, f"it did not end within {_LIMIT:g} s")
    return ScriptResult(ended.returncode, ended.stdout + ended.stderr)
