"""``--script``: a cell as a file that needs torch and executorch only, and what it says here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from harness.model.case import Case
    from harness.model.recipe import Recipe
    from harness.record.target import Target

SCRIPT = click.option(
    "--script",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT.py",
    help="Write a script that shows it with torch and executorch only, and run that.",
)

_SECONDS = 600.0
_WORDS = {0: "the defect is gone", 1: "the defect shows", 2: "it cannot be tried here"}


def write(
    path: Path,
    case: Case,
    target: Target,
    seed: int,
    console: Console,
    *,
    recipe: Recipe | None = None,
    about: Sequence[str] = (),
) -> None:
    """Write the script of a case, run it away from this project, and print what it says.

    Raises:
        UsageError: there is nothing to write, or no place to write it to.
    """
    from rich.markup import escape

    from harness.tracing.script.write import write_script

    with console.status("writing the script"):
        written = write_script(path, case, target, seed, recipe=recipe, about=about)
    console.print(f"written: [bold]{escape(str(written.path))}[/]", soft_wrap=True)
    if written.beside is not None:
        console.print(f"its long tensors: {escape(str(written.beside))}", soft_wrap=True)
    if written.ours:
        console.print(f"seen otherwise: {escape(written.ours)}", soft_wrap=True)
    with console.status("running the script"):
        code, said = _run(written.path)
    console.print(f"run alone it exits with {code}: {_WORDS.get(code, 'it broke')}")
    for line in said[-6:]:
        console.print(f"  {escape(line)}", soft_wrap=True)


def _run(path: Path) -> tuple[int, list[str]]:
    """Exit code and lines of a script that knows nothing of this project."""
    from harness.extras.releases.scripts import run_alone

    try:
        ended = run_alone(path, Path(sys.executable), _SECONDS, "-I")
    except subprocess.TimeoutExpired:
        return -1, [f"it did not end within {_SECONDS:g} s"]
    lines = ended.stdout.splitlines()
    return ended.returncode, lines or ended.stderr.splitlines()
