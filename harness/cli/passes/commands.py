"""``conform passes``: list, bisect and check graph passes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.cli.common import SPEED, SUITE_FOLDER, prepare, progress, silence_vendors
from harness.record.target import TARGET_LIST_HELP


@click.group(invoke_without_command=True)
@click.pass_context
def passes(context: click.Context) -> None:
    """List the graph passes that a target can add or omit.

    As a target, BACKEND:RECIPE+PASS runs a pass before the passes of the recipe,
    BACKEND:RECIPE-PASS omits one of them, BACKEND:RECIPE-passes omits all.
    """
    if context.invoked_subcommand is None:
        _print_passes()


@passes.command()
@click.argument("cell")
@click.option("--seed", type=int, default=0, show_default=True, help="Use this run seed.")
@SUITE_FOLDER
@SPEED
def bisect(cell: str, seed: int, suites: Path, speed: bool) -> None:
    """Find the pass that makes CELL red: omit the passes of its recipe one at a time.

    Known issues are ignored. Exit code 0 if the cell passes with all passes, 1 if a pass is at
    fault, 2 if none is or the cell cannot run.
    """
    prepare(speed=speed)
    from rich.console import Console
    from rich.table import Table

    from harness.cli.trace_commands import find_cell
    from harness.tracing.pass_blame import blame_passes

    case, target = find_cell(cell, suites)
    with progress() as say:
        found = blame_passes(case, target, seed, say)
    table = Table(title=cell, title_justify="left", header_style="bold")
    for column in ("passes", "outcome", "problem"):
        table.add_column(column, overflow="fold")
    rows = [("all", found.with_all), *([("none", found.with_none)] if found.with_none else [])]
    for label, one in [*rows, *((f"without {left}", one) for left, one in found.with_one_left_out)]:
        error = (one.error or "").split("\n")[0][:200]
        is_same = one is not found.with_all and error and one.error == found.with_all.error
        table.add_row(label, one.status.value, "the same" if is_same else error)
    console = Console()
    console.print(table)
    console.print(found.conclusion, style="bold", markup=False)
    passes_unchanged = found.with_none is None
    sys.exit(0 if passes_unchanged else 1 if found.culprits or found.first_red_prefix else 2)


_PIPED_WIDTH = 140


@passes.command()
@click.argument("name")
@click.option(
    "--targets",
    default="portable:fp32",
    show_default=True,
    metavar="LIST",
    help=f"Run on these targets, separated by commas: {TARGET_LIST_HELP}.",
)
@click.option(
    "--cases", default="graph/*", show_default=True, help="Use these cases; separate globs with |."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Use this run seed.")
@SUITE_FOLDER
@SPEED
def check(name: str, targets: str, cases: str, seed: int, suites: Path, speed: bool) -> None:
    """Check pass NAME on many graphs, and run them with and without it on targets.

    NAME is a listed pass, also as exir.NAME, or package.module:Class for your own pass. Exit code 0
    if the pass keeps the properties it must keep, 1 if it breaks one or only cells without it pass,
    2 if nothing could be judged.
    """
    prepare(speed=speed)
    from rich.console import Console

    from harness.cli.passes.comparison import PassComparison, print_comparisons
    from harness.errors import UsageError
    from harness.model import registry
    from harness.model.selection import parse_list
    from harness.model.variations.passes import add_pass, find_pass
    from harness.pipeline.runner import run_cell
    from harness.record.target import Target, matches_any_glob
    from harness.session.discovery import load_suites

    chosen = parse_list(targets, "--targets")
    corpus = [
        one
        for suite in load_suites(suites)
        for one in suite.cases
        if matches_any_glob(cases, one.name)
    ]
    if not corpus:
        raise UsageError(f"no case of {suites} matches {cases}")
    compared: dict[Target, list[PassComparison]] = {target: [] for target in chosen}
    with progress() as say:
        for case in corpus:
            for target in chosen:
                say(f"{case.name} on {target}")
                recipe = registry.recipe(target)
                known = find_pass(name, registry.backend(target.backend))
                without = run_cell(case, target, seed=seed)
                cell = run_cell(case, target, seed=seed, recipe=add_pass(recipe, known))
                compared[target].append(PassComparison(case.name, without, cell))
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    for target, rows in compared.items():
        print_comparisons(console, f"{name} on {target}", rows)
    every = [one for rows in compared.values() for one in rows]
    judged, red = sum(one.is_judged for one in every), sum(one.is_worse for one in every)
    console.print(f"{judged} checked, {red} red", style="bold")
    sys.exit(1 if red else 0 if judged else 2)


def _print_passes() -> None:
    silence_vendors()
    from rich.console import Console
    from rich.table import Table

    from harness.model import registry
    from harness.model.backend import OffersPasses
    from harness.model.variations.passes import GENERAL, pass_name

    added = Table(title="passes to add: +PASS", title_justify="left", header_style="bold")
    for column in ("pass", "to", "effect", "class"):
        added.add_column(column, overflow="fold")
    for name, known in GENERAL.items():
        added.add_row(name, "any recipe", known.about, known.where)
    own = Table(title="passes to omit: -PASS", title_justify="left", header_style="bold")
    for column in ("recipes", "passes before partitioning, in this order"):
        own.add_column(column, overflow="fold")
    for backend_name in registry.names():
        backend = registry.backend(backend_name)
        if isinstance(backend, OffersPasses):
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
