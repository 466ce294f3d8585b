"""Options of a session, declared once for pytest and for ``conform run``.

Imports neither pytest nor torch, so that ``conform run --help`` starts quickly.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.record.target import TARGET_LIST_HELP
from harness.tracing import AUTOMATIC_TRACE_SECONDS

PROGRESS_MODES = ("dots", "lines", "live")


@dataclass(frozen=True, kw_only=True)
class SessionOption:
    """One option.

    Attributes:
        name: the option as it is typed, such as ``--run-dir``.
        help: its effect, without a final period and without the default.
        kind: type of the value. ``positive`` is a number above 0, ``limit`` may be 0 as well.
        metavar: name of the value in help texts.
        default: value when the option is absent; None for False of a flag.
        default_help: the default as help texts show it; empty where there is nothing to show.
        choices: the values of a ``choice``.
        unit: unit of a number, for the error about a wrong one.
        is_in_run: whether ``conform run`` declares it. It passes other options on to pytest.
        old_names: earlier spellings. They still work, and help texts do not show them.
    """

    name: str
    help: str
    kind: Literal["text", "path", "integer", "positive", "limit", "choice", "flag"] = "text"
    metavar: str | None = None
    default: Any = None
    default_help: str = ""
    choices: tuple[str, ...] = ()
    unit: str = "seconds"
    is_in_run: bool = True
    old_names: tuple[str, ...] = ()

    @property
    def attribute(self) -> str:
        """Name of the value in ``conform run``, such as ``run_dir``."""
        return self.name.lstrip("-").replace("-", "_")

    @property
    def destination(self) -> str:
        """Name of the value in pytest's configuration, such as ``conform_run_dir``.

        Other plugins name their values as well, some of them ``seed`` or ``progress``.
        """
        return f"conform_{self.attribute}"


OPTIONS = (
    SessionOption(
        name="--targets",
        metavar="LIST",
        help=f"Run on these targets, separated by commas: {TARGET_LIST_HELP}",
        default_help="targets of a plain run, and targets that cases name",
    ),
    SessionOption(
        name="--seed",
        kind="integer",
        default=0,
        default_help="0",
        help="Derive all weights and inputs from this seed",
    ),
    SessionOption(
        name="--run-dir",
        kind="path",
        metavar="DIR",
        default="",
        default_help="runs/TIME",
        help="Write the run to this folder",
    ),
    SessionOption(
        name="--cell-timeout",
        kind="positive",
        metavar="SECONDS",
        default=300.0,
        default_help="300",
        help="End a cell after this many seconds and record it as timeout; has no effect with -n 0",
    ),
    SessionOption(
        name="--cell-memory",
        kind="positive",
        unit="GiB",
        metavar="GIB",
        default=3.0,
        default_help="3",
        help="End a cell that uses this much memory above its worker's baseline and record it as "
        "crashed, unless its Case asks for more; has no effect with -n 0",
    ),
    SessionOption(
        name="--require-delegation",
        metavar="LIST",
        is_in_run=False,
        help="Fail cells on these targets if nothing was delegated; all must be selected",
    ),
    SessionOption(
        name="--compare-runtimes",
        kind="flag",
        help="Run cells both natively and emulated where a backend can do both (mlx on a Mac), and "
        "fail if the verdicts differ",
    ),
    SessionOption(
        name="--lower-only",
        kind="flag",
        help="Stop after serialization: execute nothing, record cells as lowered",
    ),
    SessionOption(
        name="--keep",
        kind="choice",
        choices=("none", "red", "all"),
        default="none",
        default_help="none",
        help="Keep program, inputs, actual and expected outputs and a BundledProgram of red or all "
        "cells in the run folder",
    ),
    SessionOption(
        name="--incremental",
        kind="flag",
        help="Reuse cached results for cells whose dependencies are unchanged, and cache new "
        "results (docs/incremental.md)",
    ),
    SessionOption(
        name="--result-cache",
        metavar="URL",
        default="",
        default_help="a folder in the user's cache folder",
        help="Store the results of --incremental here: a folder, or a URL that fsspec can open, "
        "such as s3://bucket/results",
        old_names=("--results",),
    ),
    SessionOption(
        name="--resume",
        kind="path",
        metavar="RUN",
        default="",
        help="Complete a stopped run in its folder: skip cells that have a record; conform run "
        "takes the other arguments from that run, pytest needs the same ones again",
    ),
    SessionOption(
        name="--changed-since",
        metavar="REV",
        default="",
        help="Run only cells affected by changes since this git revision, including uncommitted "
        "and untracked files",
    ),
    SessionOption(
        name="--coverage",
        kind="flag",
        is_in_run=False,
        help="Record which lines of the vendors' lowering code each cell executes, in the file "
        "coverage.db of the run folder; conform coverage record sets it (docs/coverage.md)",
    ),
    SessionOption(
        name="--no-speed",
        kind="flag",
        is_in_run=False,
        help="Replace no function of torch, executorch or execnet, fork no workers and leave the "
        "garbage collector alone; programs are identical (docs/adr/0004). The environment variable "
        "CONFORM_NO_SPEED=passes.fake_results,graph_code turns off single parts",
    ),
    SessionOption(
        name="--trace-time",
        kind="limit",
        metavar="SECONDS",
        default=AUTOMATIC_TRACE_SECONDS,
        default_help=f"{AUTOMATIC_TRACE_SECONDS:g}",
        is_in_run=False,
        help="Search this long for the first diverging node of a model whose outputs are wrong, "
        "within --cell-timeout; 0 turns tracing off",
    ),
    SessionOption(
        name="--progress",
        kind="choice",
        choices=PROGRESS_MODES,
        default="dots",
        default_help="dots",
        is_in_run=False,
        help="Show progress as a letter per cell, as a line every 20 seconds, or as a live view",
    ),
    SessionOption(
        name="--fresh-workers",
        kind="flag",
        is_in_run=False,
        help="Start every xdist worker as a new process; by default, on Linux, replacements of "
        "dead workers, and all workers if they outnumber the cores, are forked from a process that "
        "has imported torch and executorch",
    ),
)


def add_to_parser(group: Any, options: Sequence[SessionOption]) -> None:
    """Declare options to pytest.

    Args:
        group: an option group of pytest's parser.
        options: the options.
    """
    for option in options:
        arguments: dict[str, Any] = {"dest": option.destination}
        if option.kind == "flag":
            arguments["action"] = "store_true"
        else:
            arguments |= {"metavar": option.metavar, "default": option.default}
        if option.kind == "integer":
            arguments["type"] = int
        elif option.kind in ("positive", "limit"):
            arguments["type"] = _number_parser(option)
        elif option.kind == "choice":
            arguments["choices"] = option.choices
        default = f" (default: {option.default_help})" if option.default_help else ""
        group.addoption(option.name, help=f"{option.help}{default}", **arguments)
        if option.old_names:
            hidden = {**arguments, "default": argparse.SUPPRESS}
            group.addoption(*option.old_names, help=argparse.SUPPRESS, **hidden)


def _number_parser(option: SessionOption) -> Callable[[str], float]:
    def parse(text: str) -> float:
        with contextlib.suppress(ValueError):
            value = float(text)
            if 0 < value < math.inf or (option.kind == "limit" and value == 0):
                return value
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of {option.unit} above 0, such as {option.default_help}"
        )

    return parse
