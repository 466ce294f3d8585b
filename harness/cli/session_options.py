"""Options of a pytest session as options of ``conform run``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from harness.cli.common import ABOVE_ZERO, RenamedOption
from harness.pytest_plugin.options import SessionOption


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
