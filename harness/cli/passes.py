"""``conform passes``: the graph passes that a target can name, and which of them is to blame."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.cli.common import SPEED, SUITE_FOLDER, prepare, progress, silence_vendors
from harness.record.target import LISTED


@click.group(invoke_without_command=True)
@click.pass_context
def passes(context: click.Context) -> None:
    """List the graph passes that a target can add or leave out.

    BACKEND:RECIPE+PASS runs a recipe with a pass before its own, BACKEND:RECIPE-PASS without one of
    its own, BACKEND:RECIPE-passes without any; wherever a target is named.
    """
    if context.invoked_subcommand is None:
        _list()


@passes.command()
@click.argument("cell")
@click.option("--seed", type=int, default=0, show_default=True, help="Run seed.")
@SUITE_FOLDER
@SPEED
def bisect(cell: str, seed: int, suites: Path, speed: bool) -> None:
    """Leave the passes of CELL's recipe out, one at a time, until it passes.

    Limitations are not looked at. Exit code 0 when the cell passes as it is, 1 when a pass is to
    blame, 2 when none is or it could not be tried.
    """
    prepare(speed=speed)
    from rich.console import Console
    from rich.table import Table

    from harness.cli.trace_commands import case_of
    from harness.tracing.pass_blame import blame_passes

    case, target = case_of(cell, suites)
    with progress() as say:
        found = blame_passes(case, target, seed, say)
    table = Table(title=cell, title_justify="left", header_style="bold")
    for column in ("passes", "outcome", "what is wrong"):
        table.add_column(column, overflow="fold")
    rows = [("all", found.with_all), *([("none", found.with_none)] if found.with_none else [])]
    for label, one in [*rows, *((f"without {left}", one) for left, one in found.with_one_left_out)]:
        error = (one.error or "").split("\n")[0][:200]
        again = one is not found.with_all and error and one.error == found.with_all.error
        table.add_row(label, one.status.value, "the same" if again else error)
    console = Console()
    console.print(table)
    console.print(found.conclusion, style="bold", markup=False)
    passes_as_it_is = found.with_none is None
    sys.exit(0 if passes_as_it_is else 1 if found.culprits or found.first_red_prefix else 2)


_PIPED = 140


@passes.command()
@click.argument("name")
@click.option(
    "--targets",
    default="portable:fp32",
    show_default=True,
    metavar="T,...",
    help=f"Comma-separated: {LISTED}.",
)
@click.option("--cases", default="graph/*", show_default=True, help="Globs over cases, by |.")
@click.option("--seed", type=int, default=0, show_default=True, help="Run seed.")
@SUITE_FOLDER
@SPEED
def check(name: str, targets: str, cases: str, seed: int, suites: Path, speed: bool) -> None:
    """Run pass NAME over a corpus of graphs, and the graphs with and without it on targets.

    NAME is one of the list, also as exir.NAME, or package.module:Class for one of your own. Exit
    code 0 when it keeps all that it must, 1 when it does not or a target is right without it alone,
    2 when nothing could be judged.
    """
    prepare(speed=speed)
    from rich.console import Console

    from harness.cli.pass_comparison import Compared, print_compared
    from harness.errors import UsageError
    from harness.model import registry
    from harness.model.recipe_passes import pass_of, with_pass
    from harness.model.selection import parse_list
    from harness.pipeline.runner import run_cell
    from harness.record.target import Target, any_glob
    from harness.session.discovery import all_suites

    chosen = parse_list(targets, "--targets")
    corpus = [
        one for suite in all_suites(suites) for one in suite.cases if any_glob(cases, one.name)
    ]
    if not corpus:
        raise UsageError(f"no case of {suites} matches {cases}")
    compared: dict[Target, list[Compared]] = {target: [] for target in chosen}
    with progress() as say:
        for case in corpus:
            for target in chosen:
                say(f"{case.name} on {target}")
                recipe = registry.recipe(target)
                known = pass_of(name, registry.backend(target.backend))
                without = run_cell(case, target, seed=seed)
                cell = run_cell(case, target, seed=seed, recipe=with_pass(recipe, known))
                compared[target].append(Compared(case.name, without, cell))
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED)  # a file has no edge to fold at
    for target, rows in compared.items():
        print_compared(console, f"{name} on {target}", rows)
    every = [one for rows in compared.values() for one in rows]
    judged, red = sum(one.is_judged for one in every), sum(one.is_worse for one in every)
    console.print(f"{judged} looked at, {red} red", style="bold")
    sys.exit(1 if red else 0 if judged else 2)


def _list() -> None:
    silence_vendors()
    from rich.console import Console
    from rich.table import Table

    from harness.model import registry
    from harness.model.backend import Rewriting
    from harness.model.recipe_passes import GENERAL, pass_name

    added = Table(title="can be added: +PASS", title_justify="left", header_style="bold")
    for column in ("pass", "to", "what it does", "class"):
        added.add_column(column, overflow="fold")
    for name, known in GENERAL.items():
        added.add_row(name, "any recipe", known.about, known.where)
    own = Table(title="can be left out: -PASS", title_justify="left", header_style="bold")
    for column in ("recipes", "run before they partition, in this order"):
        own.add_column(column, overflow="fold")
    for backend_name in registry.names():
        backend = registry.backend(backend_name)
        if isinstance(backend, Rewriting):
            for name, known in backend.passes.items():
                added.add_row(name, f"{backend_name}:*", known.about, known.where)
        runs: dict[tuple[str, ...], list[str]] = {}
        for recipe in backend.recipes.values():
            made = tuple(pass_name(one) for one in recipe.transform_passes())
            if made:
                runs.setdefault(made, []).append(f"{backend_name}:{recipe.name}")
        for names, recipes in runs.items():
            own.add_row(" ".join(recipes), " ".join(names))
    console = Console()
    console.print(added)
    console.print(own)
