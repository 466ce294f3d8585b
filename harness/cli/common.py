"""Options and functions that several commands share."""

from __future__ import annotations

import copy
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
from harness.pytest_plugin.options import SessionOption
from harness.vendors.quiet import silence_vendors as silence_vendors

if TYPE_CHECKING:
    from harness.record.run import Run


def _suites() -> Path:
    """Suites of the working directory, or the installed suites of this package."""
    here = Path("suites")
    spec = None if here.is_dir() else find_spec("suites")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return Path(folders[0]) if folders else here


RUNS = Path("runs")
SUITES = _suites()

EVERY_SECONDS = 20.0

ABOVE_ZERO = click.FloatRange(min=0, min_open=True)


class RenamedOption(click.Option):
    """An option whose first spelling is current. Older ones still work; help shows none of them."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Spelling and help text."""
        shown = copy.copy(self)
        shown.opts = self.opts[:1]
        return super(RenamedOption, shown).get_help_record(ctx)


def _check_folder(context: click.Context, parameter: click.Parameter, folder: Path) -> Path:
    """Refuse a missing folder, unless it is the default: a repository may have no suites."""
    source = context.get_parameter_source(parameter.name or "")
    if source is click.core.ParameterSource.COMMANDLINE and not folder.is_dir():
        raise click.BadParameter(f"{folder} is not a folder", context, parameter)
    return folder


def session_options(*options: SessionOption) -> Callable[[Callable[..., None]], Any]:
    """Declare session options to a command. Each is None when absent: pytest has the defaults."""

    def decorate(command: Callable[..., None]) -> Any:
        declared: Any = command
        for option in reversed(options):
            if option.is_in_run:
                declared = _declare(option)(declared)
        return declared

    return decorate


def _declare(option: SessionOption) -> Callable[[Any], Any]:
    default = f"  [default: {option.default_help}]" if option.default_help else ""
    types = {
        "path": click.Path(path_type=Path),
        "integer": click.INT,
        "positive": ABOVE_ZERO,
        "limit": click.FloatRange(min=0),
        "choice": click.Choice(option.choices),
    }
    return click.option(
        option.name,
        *option.old_names,
        option.attribute,
        cls=RenamedOption,
        metavar=option.metavar,
        type=types.get(option.kind),
        is_flag=option.kind == "flag",
        help=f"{option.help}.{default}",
    )


SUITE_FOLDER = click.option(
    "--suites",
    type=click.Path(path_type=Path),
    default=SUITES,
    callback=_check_folder,
    show_default=True,
    help="Read suites from this folder.",
)


def run_folder(command: Callable[..., None]) -> Callable[..., None]:
    """Add an argument ``[RUN]``, the parameter ``folder`` of a command."""
    folder = click.Path(path_type=Path)

    @click.argument("as_argument", required=False, type=folder, metavar="[RUN]")
    @click.option(
        "--run",
        "as_option",
        type=folder,
        hidden=True,
        deprecated="Give the folder as the argument RUN.",
    )
    @functools.wraps(command)
    def command_with_folder(
        *args: Any, as_argument: Path | None, as_option: Path | None, **options: Any
    ) -> None:
        if as_argument is not None and as_option not in (None, as_argument):
            raise click.UsageError(f"two runs, {as_argument} and {as_option}; give one of them")
        command(*args, folder=as_option or as_argument, **options)

    return command_with_folder


SPEED = click.option(
    "--speed/--no-speed",
    default=True,
    show_default=True,
    help="Cache work that torch repeats for each program. Output is identical. "
    "CONFORM_NO_SPEED=passes.fake_results,graph_code turns off single parts.",
)


def prepare(*, speed: bool) -> None:
    """Silence vendors in this process, and install the speed parts if wanted."""
    silence_vendors()
    if speed:
        from harness.pipeline import speed as speed_parts

        speed_parts.install()


@contextmanager
def progress(begin: str = "") -> Iterator[Callable[[str], None]]:
    """Show progress on stderr: a live line in a terminal, otherwise a line every
    :data:`EVERY_SECONDS`.

    Args:
        begin: first line.

    Yields:
        A function that replaces the line.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(begin) as status:
            yield lambda line: status.update(line)
        return
    current, is_over, start = [begin], threading.Event(), time.monotonic()

    def print_lines() -> None:
        while not is_over.wait(EVERY_SECONDS):
            click.echo(f"{time.monotonic() - start:.0f} s: {current[0]}", err=True)

    printer = threading.Thread(target=print_lines, daemon=True)
    printer.start()
    try:
        yield lambda line: current.__setitem__(0, line)
    finally:
        is_over.set()
        printer.join()


def load_run(folder: Path | None) -> Run:
    """Load a run folder, or the newest run if none is given.

    Raises:
        RunUnreadable: the folder is not a run, or there is no run.
    """
    from harness.record.folder import find_latest, load

    if folder is not None and not folder.is_dir():
        raise RunUnreadable(f"{folder} is not a folder; list the runs with: ls {RUNS}")
    return load(folder or find_latest(RUNS))
