"""``--script``: write a cell as a script that needs only torch and executorch, and run it."""

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
    help="Write a script that reproduces it with only torch and executorch, and run the script.",
)

_SECONDS = 600.0
_FAILED = -1
_MEANINGS = {0: "the defect is gone", 1: "the defect shows", 2: "it cannot be tried here"}


def write_and_run_script(
    path: Path,
    case: Case,
    target: Target,
    seed: int,
    console: Console,
    *,
    recipe: Recipe | None = None,
    about: Sequence[str] = (),
) -> None:
    """Write the script of a case, run it outside of this project, and print its result.

    Raises:
        UsageError: there is nothing to write, or the file cannot be written.
    """
    from rich.markup import escape

    from harness.tracing.script.write import write_script

    with console.status("writing the script"):
        written = write_script(path, case, target, seed, recipe=recipe, about=about)
    console.print(f"written: [bold]{escape(str(written.path))}[/]", soft_wrap=True)
    if written.tensor_file is not None:
        console.print(f"tensors of the script: {escape(str(written.tensor_file))}", soft_wrap=True)
    if written.runtime_note:
        console.print(
            f"not observed with the native runtime: {escape(written.runtime_note)}",
            soft_wrap=True,
        )
    with console.status("running the script"):
        code, said = _run(written.path)
    if code == _FAILED:
        console.print("the script failed:")
    else:
        console.print(f"script exits with {code}: {_MEANINGS.get(code, 'it failed')}")
    for line in said[-6:]:
        console.print(f"  {escape(line)}", soft_wrap=True)


def _run(path: Path) -> tuple[int, list[str]]:
    """Return exit code and output lines of a script, run without this project on its path."""
    from harness.extras.releases.scripts import run_isolated

    try:
        ended = run_isolated(path, Path(sys.executable), _SECONDS, "-I")
    except subprocess.TimeoutExpired:
        return _FAILED, [f"it did not end within {_SECONDS:g} s"]
    errors = ended.stderr.splitlines()
    if ended.returncode == 1 and "Traceback (most recent call last):" in errors:
        return _FAILED, errors  # Python's own exit code is that of a defect, too
    return ended.returncode, ended.stdout.splitlines() or errors
