"""``conform trace`` and ``conform reduce``: explain why a cell is red."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import SPEED, SUITE_FOLDER, load_run, prepare, progress, run_folder
from harness.cli.script_option import SCRIPT, write_and_run_script
from harness.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.model.case import Case
    from harness.model.recipe import Recipe
    from harness.record.target import Target
    from harness.tracing.reduce import ReducedProgram
    from harness.tracing.trace_result import Found, TracedNode

_ROWS = 24
"""Maximum of printed rows; JSON contains all."""

_TARGET = click.option(
    "--target",
    metavar="TARGET",
    help="Treat CELL as a SOURCE of conform check and run it on this target.",
)
_INPUTS = click.option(
    "--inputs",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Call that SOURCE with the inputs in this file (see conform check).",
)
_CALIBRATE = click.option(
    "--calibrate",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Calibrate a quantizer of that SOURCE with these inputs; repeatable.  [default: --inputs]",
)
_KEEP_FLOAT = click.option(
    "--keep-float",
    multiple=True,
    metavar="MODULE",
    help="Leave a module of that SOURCE in float; repeatable.",
)


@dataclass(frozen=True)
class ModelOptions:
    """The options for a user's model, as ``conform check`` has them.

    Attributes:
        target: its target; None for a cell of a suite.
        inputs: the file of its inputs.
        calibrate: the files of inputs that calibrate a quantizer.
        keep_float: names of modules that a quantizer leaves in float.
    """

    target: str | None
    inputs: Path | None
    calibrate: Sequence[Path]
    keep_float: Sequence[str]

    def list_words(self) -> list[tuple[str, object]]:
        """Return the options as they are typed."""
        return [
            *([("--target", self.target)] if self.target is not None else []),
            *([("--inputs", self.inputs)] if self.inputs is not None else []),
            *(("--calibrate", each) for each in self.calibrate),
            *(("--keep-float", each) for each in self.keep_float),
        ]


@click.command()
@click.argument("cell")
@run_folder
@click.option("--seed", type=int, help="Use this run seed.  [default: seed of RUN, or 0]")
@SUITE_FOLDER
@_TARGET
@_INPUTS
@_CALIBRATE
@_KEEP_FLOAT
@click.option("--all-nodes", is_flag=True, help="Check every node, also of a green cell.")
@click.option(
    "--taps",
    type=click.IntRange(min=1),
    default=24,
    show_default=True,
    help="Return at most this many intermediate values from one program.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--save", type=click.Path(path_type=Path), help="Write JSON to this file.")
@SPEED
def trace(
    cell: str,
    folder: Path | None,
    seed: int | None,
    suites: Path,
    target: str | None,
    inputs: Path | None,
    calibrate: Sequence[Path],
    keep_float: Sequence[str],
    all_nodes: bool,
    taps: int,
    as_json: bool,
    save: Path | None,
    speed: bool,
) -> None:
    """Find the first diverging node of CELL.

    The exported graph is lowered and run on the target several times, with values of different
    nodes as additional outputs. Each value is compared with its own bound. Exit code: 0 the cell is
    green, 1 it is red, 2 it could not be traced.
    """
    prepare(speed=speed)
    from rich.console import Console

    from harness.tracing.trace import trace as find

    seed = choose_seed(cell, folder, seed)
    options = ModelOptions(target, inputs, calibrate, keep_float)
    case, on, recipe = find_subject(cell, suites, options, seed)
    with progress() as say:
        found = find(
            case, on, seed=seed, recipe=recipe, all_nodes=all_nodes, taps=taps,
            on_progress=say, isolate=True,
        )  # fmt: skip
    if save is not None:
        from reports import output

        output.write(save, f"{found.to_json()}\n".encode())
    if as_json:
        click.echo(found.to_json())
    else:
        print_trace(found, Console(), _cell_arguments(cell, options, seed, suites))
    sys.exit(1 if found.problem is not None else 0)


@click.command()
@click.argument("cell")
@run_folder
@click.option("--seed", type=int, help="Use this run seed.  [default: seed of RUN, or 0]")
@SUITE_FOLDER
@_TARGET
@_INPUTS
@_CALIBRATE
@_KEEP_FLOAT
@SCRIPT
@SPEED
def reduce(
    cell: str,
    folder: Path | None,
    seed: int | None,
    suites: Path,
    target: str | None,
    inputs: Path | None,
    calibrate: Sequence[Path],
    keep_float: Sequence[str],
    script: Path | None,
    speed: bool,
) -> None:
    """Shrink CELL to the smallest part of its graph that is red for the same reason.

    A wrong value is traced to the first node that computes it, a failure to the first node that
    triggers it. The part runs with exact inputs. Exit code: 0 a part was found, 2 there is nothing
    to reduce.
    """
    prepare(speed=speed)
    from rich.console import Console

    from harness.tracing.reduce import reduce as shrink

    seed = choose_seed(cell, folder, seed)
    options = ModelOptions(target, inputs, calibrate, keep_float)
    case, on, recipe = find_subject(cell, suites, options, seed)
    with progress() as say:
        reduced = shrink(case, on, seed, recipe=recipe, on_progress=say)
    print_reduced(reduced, Console())
    if script is not None:
        about = [
            f"Reduced from {reduced.cell}, seed {reduced.seed}: {len(reduced.nodes)} of "
            f"{reduced.total} nodes of its graph, with the inputs that a correct backend would "
            f"compute. The whole model: {reduced.original}"
        ]
        write_and_run_script(
            script,
            reduced.case,
            reduced.target,
            reduced.seed,
            Console(),
            recipe=reduced.recipe,
            about=about,
        )


def find_subject(
    name: str, suites: Path, options: ModelOptions, seed: int
) -> tuple[Case, Target, Recipe | None]:
    """Return the case and the target of a cell, or of a user's model where a target is given, and
    the recipe that replaces the target's, if one does.

    Raises:
        UsageError: options for a model are given for a cell; or there is no such model or module.
        UnknownTarget: no such target.
        UnknownCell: no suite has the case.
    """
    if options.target is None:
        for option, _ in options.list_words():
            raise UsageError(f"{option} applies to a model; name its target with --target")
        return *find_cell(name, suites), None
    from harness.checking import cases, custom_recipe, model_sources
    from harness.model.selection import parse_targets

    (on,) = parse_targets([options.target])
    files = [] if options.inputs is None else [options.inputs]
    subject = model_sources.load_model(name, files, options.calibrate, seed=seed)
    custom_recipe.check_module_names(subject.module, options.keep_float)
    recipe = custom_recipe.RecipeChanges(keep_float=options.keep_float).change(on)
    return cases.plan_cases(subject, seed=seed).cases[0], on, recipe


def find_cell(cell: str, suites: Path) -> tuple[Case, Target]:
    """The case and the target that a cell's id names.

    Raises:
        UnknownTarget: the id is misspelled, or names no target.
        UnknownCell: no suite has the case.
    """
    from harness.model.selection import parse_targets
    from harness.record.target import split_cell_id
    from harness.session.discovery import find_case

    name, target = split_cell_id(cell)
    parse_targets([str(target)])
    return find_case(suites, name)[0], target


def choose_seed(cell: str, folder: Path | None, seed: int | None) -> int:
    """Return the given seed, the seed of the cell in a run, or 0.

    Raises:
        RunUnreadable: the folder is not a run.
        UnknownCell: the run has no such cell.
    """
    if seed is not None:
        return seed
    return 0 if folder is None else load_run(folder).cell(cell).seed


def print_trace(found: Found, console: Console, arguments: str) -> None:
    """Print the result of a trace and the next command to run.

    Args:
        found: the result.
        console: the console.
        arguments: arguments that name the cell to another command.
    """
    from rich.markup import escape

    console.print(f"[bold]{escape(found.cell)}[/]  seed {found.seed}, {found.runtime}")
    if found.problem is None:
        console.print("green: every output is within its bound")
    else:
        console.print(f"[red]red[/]: {escape(found.problem)}")
    if found.note:
        console.print(f"note: {escape(found.note)}")
    if found.first is not None:
        _print_first_node(found.first, found, console)
    if found.nodes:
        _print_nodes(found, console)
    if found.problem is not None:
        command = f"conform reduce {arguments} --script repro.py"
        console.print(f"To get the smallest program that reproduces it: [bold]{escape(command)}[/]")
    elif not found.nodes:
        console.print("To list every node, worst first, add --all-nodes.")


def print_reduced(reduced: ReducedProgram, console: Console) -> None:
    """Print the reduced program."""
    from rich.markup import escape

    console.print(f"[bold]{escape(reduced.cell)}[/]  seed {reduced.seed}")
    console.print(f"[red]red[/]: {escape(reduced.original)}")
    if reduced.nodes:
        verb = "reproduces" if len(reduced.nodes) == 1 else "reproduce"
        console.print(
            f"{len(reduced.nodes)} of {reduced.total} nodes {verb} it: "
            f"[bold]{escape(reduced.operators)}[/]"
        )
        console.print(f"  {escape(' '.join(reduced.nodes))}")
    console.print(f"reduced program: {escape(reduced.problem)}")
    if reduced.note:
        console.print(f"note: {escape(reduced.note)}")
    console.print(f"{reduced.programs} programs tried")


def _cell_arguments(cell: str, given: ModelOptions, seed: int, suites: Path) -> str:
    """Return the arguments that name a cell, or a model on a target, to another command."""
    import shlex

    from harness.cli.common import SUITES

    options: list[tuple[str, object]] = [
        *given.list_words(),
        *([("--seed", seed)] if seed else []),
        *([("--suites", suites)] if suites != SUITES else []),
    ]
    return shlex.join([cell, *(str(word) for pair in options for word in pair)])


def _print_first_node(first: TracedNode, found: Found, console: Console) -> None:
    from rich.markup import escape

    console.print(f"\nfirst diverging node: [bold]{escape(first.node)}[/]  {escape(first.op)}")
    for label, text in (
        ("source", first.source),
        ("module", first.module),
        ("shapes", first.shapes),
        ("error", _error(first)),
        ("oracle", str(first.expected or "")),
        ("target", str(first.actual or "")),
        ("origin", _describe_origin(first, found)),
    ):
        if text:
            console.print(f"  {label:<7} {escape(text)}", soft_wrap=True)
    console.print()


def _error(node: TracedNode) -> str:
    return (
        f"{node.error:.3g} at the worst element: {node.bound_used:.3g} times its bound "
        f"({node.bound:.3g}); {node.exceeding} of {node.elements} elements exceed their bound "
        f"(call {node.call})"
    )


def _describe_origin(first: TracedNode, found: Found) -> str:
    if first.originates_here is None:
        return "unknown: the node does not lower or run alone"
    if not first.originates_here:
        path = f"; path of the error: {' -> '.join(found.path)}" if found.path else ""
        return f"inherited: with exact inputs this node stays within its bound{path}"
    if " + " in first.op or len(first.together) > 1:
        nodes = " ".join(first.together)
        return f"the error originates here, in these nodes together, with exact inputs: {nodes}"
    return "the error originates here: with exact inputs this node exceeds its bound"


def _line(source: str) -> str:
    """Return ``model.py:12`` of a source line; JSON output has the folder and the code."""
    return ":".join(source.split(":")[:2]).rpartition("/")[2]


def _print_nodes(found: Found, console: Console) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    # No column for the operator: a node's name begins with it.
    table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in ("node", "value", "error", "bound", "used", "at"):
        number = column in ("error", "bound", "used")
        table.add_column(
            column, justify="right" if number else "left", overflow="fold", no_wrap=number
        )
    for node in found.nodes[:_ROWS]:
        style = "red" if node.problem is not None else ""
        cells = (node.node, node.shapes.partition(" <- ")[0])
        numbers = (f"{number:.3g}" for number in (node.error, node.bound, node.bound_used))
        table.add_row(*cells, *numbers, _line(node.source), style=style)
    console.print(table)
    more = f" ({len(found.nodes) - _ROWS} more in --json)" if len(found.nodes) > _ROWS else ""
    console.print(
        f"{len(found.nodes)} of {found.candidates} nodes measured{more}; rounds: {found.rounds}, "
        f"programs: {found.programs}"
    )
