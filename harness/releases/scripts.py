"""Python scripts on several releases, and what each exits with."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ReleaseError
from harness.releases.available import Release
from harness.releases.environment import Say, of_process, python

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
        yield path, [_run(interpreter, path.resolve()) for interpreter in pythons]


def _run(interpreter: Path, path: Path) -> Ended:
    # PYTHONPATH would put what is here before what the release has.
    alone = {name: text for name, text in of_process().items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        asked = subprocess.Popen(
            [str(interpreter), str(path)],
            cwd=folder,
            env=alone,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            output, _ = asked.communicate(timeout=_LIMIT)
        except subprocess.TimeoutExpired:
            asked.kill()
            output, _ = asked.communicate()
        return Ended(asked.returncode, output)
