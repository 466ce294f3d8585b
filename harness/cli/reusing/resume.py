"""The command that takes a stopped run up again, from what the run says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

# Who runs the cells, and how it is shown, may be otherwise.
_ANEW = ("--run-dir", "--progress", "--resume", "-n", "--numprocesses")


def check_alone(ctx: click.Context) -> None:
    """Refuse options that would make it another run.

    Raises:
        UsageError: naming the first.
    """
    for name in ctx.params:
        given = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if given and name not in ("resume", "workers"):
            option = next(each for each in ctx.command.params if each.name == name)
            raise click.UsageError(
                f"--resume goes on with a run as it was; leave out {_spelled(option)}"
            )


def arguments_of(folder: Path, options: Sequence[str]) -> list[str]:
    """What pytest is given to complete a run.

    Args:
        folder: of the run.
        options: of the session that completes it, in place of what the run was given.

    Raises:
        ConformError: the folder holds no run that can be completed.
    """
    from harness.record.resuming import stopped

    return [*_kept(stopped(folder).info.command[1:]), *options, "--resume", str(folder)]


def _spelled(option: click.Parameter) -> str:
    return option.opts[0] if isinstance(option, click.Option) else "all that is to be run"


def _kept(arguments: Sequence[str]) -> Iterator[str]:
    is_value = False
    for text in arguments:
        name = text.partition("=")[0]
        if is_value:
            is_value = False
        elif name in _ANEW:
            is_value = text == name
        elif not (text.startswith("-n") and text[2:].isalnum()):
            yield text
