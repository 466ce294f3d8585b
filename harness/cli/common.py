"""What several commands need: where suites and runs lie, the newest run, and quiet vendors."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.errors import RunUnreadable
from harness.vendors.quiet import silence_vendors as silence_vendors

if TYPE_CHECKING:
    from harness.record.run import Run


def _suites() -> Path:
    """Those of the checkout; in a repository of one's own, which has none, ours as installed."""
    here = Path("suites")
    spec = None if here.is_dir() else find_spec("suites")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    return Path(places[0]) if places else here


RUNS = Path("runs")
SUITES = _suites()

EVERY_SECONDS = 20.0

ABOVE_ZERO = click.FloatRange(min=0, min_open=True)


def _existing(context: click.Context, parameter: click.Parameter, folder: Path) -> Path:
    """A folder that was typed must be there; a repository without suites has no default one."""
    source = context.get_parameter_source(parameter.name or "")
    if source is click.core.ParameterSource.COMMANDLINE and not folder.is_dir():
        raise click.BadParameter(f"{folder} is not a folder", context, parameter)
    return folder


SUITE_FOLDER = click.option(
    "--suites",
    type=click.Path(path_type=Path),
    default=SUITES,
    callback=_existing,
    help="Suite folder.",
)


def run_folder(explained: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take a run folder as ``folder``: its second argument, or ``--run``.

    Args:
        explained: help of ``--run``.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        folder = click.Path(path_type=Path)

        @click.argument("as_argument", required=False, type=folder, metavar="[RUN]")
        @click.option("--run", "as_option", type=folder, help=explained)
        @functools.wraps(command)
        def called(
            *args: Any, as_argument: Path | None, as_option: Path | None, **options: Any
        ) -> None:
            if as_argument is not None and as_option not in (None, as_argument):
                raise click.UsageError(f"two runs, {as_argument} and {as_option}; give one of them")
            command(*args, folder=as_option or as_argument, **options)

        return called

    return decorate


SPEED = click.option(
    "--speed/--no-speed",
    default=True,
    show_default=True,
    help="Cache work that torch repeats for each program; the programs are the same. --no-speed "
    "replaces no function of torch or executorch and leaves the garbage collector as it is. "
    "CONFORM_NO_SPEED=passes.fake_results,graph_code leaves out single parts.",
)


def prepare(*, speed: bool) -> None:
    """Before this process lowers: no noise of vendors, and torch kept quick if that is wanted."""
    silence_vendors()
    if speed:
        from harness.pipeline import speed as keeping

        keeping.install()


@contextmanager
def progress(begin: str = "") -> Iterator[Callable[[str], None]]:
    """Show what is being done, on stderr: one line that changes in a terminal, and elsewhere a line
    every :data:`EVERY_SECONDS`, so that a log shows that work goes on.

    Args:
        begin: what is being done at first.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(begin) as status:
            yield lambda line: status.update(line)
        return
    doing, is_over, start = [begin], threading.Event(), time.monotonic()

    def print_lines() -> None:
        while not is_over.wait(EVERY_SECONDS):
            click.echo(f"{time.monotonic() - start:.0f} s: {doing[0]}", err=True)

    lines = threading.Thread(target=print_lines, daemon=True)
    lines.start()
    try:
        yield lambda line: doing.__setitem__(0, line)
    finally:
        is_over.set()
        lines.join()


def load_run(folder: Path | None) -> Run:
    """Load a run folder; without one, the newest.

    Raises:
        RunUnreadable: it is not a run, or there is none.
    """
    from harness.record.folder import latest, load

    if folder is not None and not folder.is_dir():
        raise RunUnreadable(f"{folder} is not a folder; list the runs with: ls {RUNS}")
    return load(folder or latest(RUNS))
