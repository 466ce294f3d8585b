"""Python scripts on several releases, and what each exits with."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ReleaseError
from harness.extras.releases.available import Release
from harness.extras.releases.environment import Say, of_process, python

_LIMIT = 600.0  # seconds


@dataclass(frozen=True)
class Ended:
    """What a script exited with, less than 0 for the signal that ended it, and what it printed."""

    status: int
    output: str

    @property
    def word(self) -> str:
        """The exit code, or the name of the signal."""
        if self.status >= 0:
            return str(self.status)
        return signal.Signals(-self.status).name


def run(
    releases: Sequence[Release], paths: Sequence[Path], say: Say = print
) -> Iterator[tuple[Path, list[Ended]]]:
    """Run each script on each release, in a folder of its own.

    Args:
        releases: their environments are made where they are not there.
        paths: of the scripts.
        say: is told what takes long.

    Yields:
        A script and how it ended on each release, once it did on all.

    Raises:
        ReleaseError: a release cannot be installed, or there is no such script.
    """
    if missing := [str(path) for path in paths if not path.is_file()]:
        raise ReleaseError(f"there is no {', '.join(missing)}")
    pythons = [python(release, say) for release in releases]
    for number, path in enumerate(paths, 1):
        say(f"{path.name} ({number} of {len(paths)})")
        yield path, [_run(interpreter, path) for interpreter in pythons]


def run_alone(
    path: Path, interpreter: Path, seconds: float, *flags: str
) -> subprocess.CompletedProcess[str]:
    """Run a script where nothing of this project is found: in an empty folder, without PYTHONPATH.

    Args:
        path: of the script.
        interpreter: that runs it.
        seconds: after which it is killed.
        flags: of the interpreter.

    Raises:
        subprocess.TimeoutExpired: it was killed.
    """
    alone = {name: text for name, text in of_process().items() if name != "PYTHONPATH"}
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


def _run(interpreter: Path, path: Path) -> Ended:
    try:
        ended = run_alone(path, interpreter, _LIMIT)
    except subprocess.TimeoutExpired:
        return Ended(-signal.SIGKILL, f"it did not end within {_LIMIT:g} s")
    return Ended(ended.returncode, ended.stdout + ended.stderr)
