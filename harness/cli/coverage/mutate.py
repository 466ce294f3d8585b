"""``conform mutate``: whether cells notice mistakes in the vendors' lowering code."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import structs

from harness.cli.common import ABOVE_ZERO, SUITES, silence_vendors
from harness.cli.coverage.affected import find_recorded_run

if TYPE_CHECKING:
    from harness.coverage.mutation.mutant import Campaign, MutantResult
    from harness.coverage.summary import CoverageSummary

_UNKNOWN_SECONDS = 30.0  # for the time limit of cells that no run has
_RUN = click.option(
    "--run", "folder", type=click.Path(path_type=Path), metavar="DIR",
    help="Use this run, which conform coverage record made.  [default: the newest in runs/]",
)  # fmt: skip
_CELLS = click.option(
    "--cells", type=click.IntRange(min=0), default=40, show_default=True, metavar="N",
    help="Run at most N cells for a mutant; 0 for all that execute it.",
)  # fmt: skip
_LIMIT = click.option(
    "--limit", type=click.IntRange(min=0), default=20, show_default=True, metavar="N",
    help="Show at most N files and mutants; 0 for all.",
)  # fmt: skip


class _MutateGroup(click.Group):
    """Takes anything that is no subcommand as arguments of ``run``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_MutateGroup, subcommand_metavar="TARGET [FILES]... | COMMAND [ARGS]...")
def mutate() -> None:
    """Make small mistakes in lowering code, and find out which ones no cell notices.

    conform mutate TARGET (short for conform mutate run TARGET) judges mutants of a backend's code;
    the other commands show results. It needs a run that conform coverage record made. See
    docs/mutation.md.
    """


@mutate.command(short_help="Judge mutants of a backend's lowering code.")
@click.argument("target", metavar="TARGET")
@click.argument("files", nargs=-1, metavar="[FILES]...")
@_RUN
@click.option(
    "--sample", type=click.IntRange(min=0), default=100, show_default=True, metavar="N",
    help="Draw N mutants at random, the kinds of change in turn; 0 for all.",
)  # fmt: skip
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Use this seed for the sample."
)
@_CELLS
@click.option("--minutes", type=ABOVE_ZERO, metavar="M", help="Begin no mutant after this time.")
@click.option(
    "-n", "--workers", type=click.IntRange(min=1), metavar="N",
    help="Run N processes.  [default: the number of cores]",
)  # fmt: skip
def run(
    target: str,
    files: Sequence[str],
    folder: Path | None,
    sample: int,
    seed: int,
    cells: int,
    minutes: float | None,
    workers: int | None,
) -> None:
    """Judge mutants of the lowering code of TARGET.

    TARGET is a backend (xnnpack), a target whose cells alone run (tosa:int), or shared code: exir
    or pt2e. FILES are globs, or parts of paths, of the only files to change.

    For each mutant, a process with the changed function runs cells that execute the changed line,
    the cheapest and most different first, until one is red. Results are appended to
    RUN/mutation/TARGET; a mutant that has a result there is not judged again. Exit code 0 if each
    mutant is noticed or explained, 1 if one is not, 2 if none could be judged.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from harness.coverage.coverage_map import MAP_FILE, CoverageMap
    from harness.coverage.mutation.campaign import judge_mutants
    from harness.coverage.mutation.choose import CellChooser, draw_sample, list_pool, select_cells
    from harness.coverage.mutation.mutant import (
        Campaign,
        CampaignInfo,
        append_result,
        find_campaign_folder,
        open_campaign,
    )
    from harness.coverage.mutation.reviews import read_reviews
    from harness.record.folder import load
    from harness.record.host import available_cores
    from reports.comparison.gate.pair import describe_refusal
    from reports.mutation import terminal, views

    folder = folder or find_recorded_run()
    summary = _load_summary(folder)
    records = select_cells(target, load(folder).cells, summary)
    out = find_campaign_folder(folder, target)
    console = Console(stderr=True)
    with CoverageMap(folder / MAP_FILE) as recorded:
        chooser = CellChooser(recorded, records)
        pool = list_pool(target.partition(":")[0], chooser, summary)
        info = CampaignInfo(
            target=target,
            packages=summary.packages,
            files=pool.files,
            cells=len(records),
            reviews=read_reviews(SUITES),
        )
        campaign = open_campaign(out, info)
        results = campaign.results
        chosen = draw_sample(pool.select(files), sample, seed)
        left = [each for each in chosen if each.id not in results]
        for each in chosen if not files else ():  # judged when only some files were mutated
            if each.id in results and not results[each.id].sampled:
                results[each.id] = structs.replace(results[each.id], sampled=True)
                append_result(out, results[each.id])
        if len(chosen) > len(left):
            console.print(f"{len(chosen) - len(left):,} of {len(chosen):,} mutants have a result")
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        )  # fmt: skip
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("mutants", total=len(left))
            for result in judge_mutants(
                left,
                chooser,
                describe_refusal,
                suites=SUITES,
                cells=cells,
                sampled=not files,
                workers=workers or available_cores(),
                deadline=None if minutes is None else time.monotonic() + minutes * 60,
            ):
                append_result(out, result)
                results[result.mutant.id] = result
                progress.advance(bar)
                if views.is_survivor(result, campaign):
                    line = terminal.describe(result)
                    progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
    judged = {
        each.id: structs.replace(results[each.id], sampled=True)
        for each in chosen
        if each.id in results
    }
    shown = Campaign(info=info, results=judged)
    terminal.render([shown], Console(), limit=10)
    if len(judged) < len(chosen):
        click.echo(f"{len(chosen) - len(judged):,} mutants are not judged; run the command again")
    total = views.compute_score(shown)
    if not total.judged and not total.explained:
        click.echo("no mutant could be judged", err=True)
        sys.exit(2)
    sys.exit(1 if views.list_survivors(shown) else 0)


@mutate.command(short_help="Print the scores of all targets, or of one.")
@click.argument("target", metavar="[TARGET]", default="")
@click.option(
    "--run", "folders", type=click.Path(path_type=Path), multiple=True, metavar="DIR",
    help="Use this run, which conform coverage record made; can be given again, for backends "
    "that were recorded one by one.  [default: the newest in runs/]",
)  # fmt: skip
@_LIMIT
@click.option(
    "--write", "page", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write a page in Markdown, such as docs/trust.md, instead.",
)  # fmt: skip
def score(target: str, folders: Sequence[Path], limit: int, page: Path | None) -> None:
    """Print the scores of all targets; of one target also its files and survivors.

    Of runs that judged the same target, the last one counts.
    """
    from rich.console import Console

    from harness.record.folder import write_atomically
    from reports.mutation import markdown, terminal

    found = {
        campaign.info.target: campaign
        for folder in folders or [find_recorded_run()]
        for campaign in _read(folder, target)
    }
    campaigns = [found[name] for name in sorted(found)]
    if page is None:
        terminal.render(campaigns, Console(), limit=limit)
    else:
        write_atomically(page, markdown.render(campaigns).encode())


@mutate.command(short_help="Print one mutant: its diff, its result, and how to repeat it.")
@click.argument("mutant", metavar="ID")
@_RUN
def show(mutant: str, folder: Path | None) -> None:
    """Print a judged mutant: its diff, its result, the cells that execute it, and how to repeat."""
    from harness.coverage.coverage_map import MAP_FILE, CoverageMap
    from harness.coverage.mutation.choose import CellChooser, select_cells
    from harness.coverage.vendor_code import list_vendor_files
    from harness.record.folder import load
    from reports.mutation import terminal

    folder = folder or find_recorded_run()
    campaign, result = _find(mutant, folder)
    summary = _load_summary(folder)
    file = next(file for file in list_vendor_files() if file.name == result.mutant.file)
    click.echo(result.mutant.format_diff(file.path.read_bytes()))
    click.echo(terminal.describe(result))
    if review := campaign.info.find_review(result.mutant):
        click.echo(f"{review.kind}: {review.reason}")
    with CoverageMap(folder / MAP_FILE) as recorded:
        records = select_cells(campaign.info.target, load(folder).cells, summary)
        cells, number = CellChooser(recorded, records).choose(result.mutant, 10)
    click.echo(f"\ncells that execute it: {number:,}, the first ones:")
    for cell in cells:
        click.echo(f"  {cell.id}")
    click.echo(f"repeat: conform mutate try {mutant} --run {folder}")


@mutate.command("try", short_help="Run cells with one mutant.")
@click.argument("mutant", metavar="ID")
@click.argument("given", nargs=-1, metavar="[CELL]...")
@_RUN
@_CELLS
@click.option(
    "--suites", type=click.Path(path_type=Path), default=SUITES, show_default=True, metavar="DIR",
    help="Find cells in this folder.",
)  # fmt: skip
def attempt(
    mutant: str, given: Sequence[str], folder: Path | None, cells: int, suites: Path
) -> None:
    """Run cells with one mutant, and print the result; nothing is stored.

    CELL is the id of a cell, case@target, such as one of a new case; default: cells of the run that
    execute the mutant. Exit code 0 if the mutant is noticed or explained, 1 if it is neither, 2 if
    it cannot be judged.
    """
    from harness.coverage.coverage_map import MAP_FILE, CoverageMap
    from harness.coverage.mutation.campaign import judge_mutants
    from harness.coverage.mutation.choose import CellChooser, select_cells
    from harness.coverage.mutation.mutant import MutantOutcome
    from harness.record.cell import Cell, Status
    from harness.record.folder import load
    from harness.record.target import split_cell_id
    from harness.session.discovery import find_case
    from reports.comparison.gate.pair import describe_refusal
    from reports.mutation import terminal, views

    silence_vendors()
    folder = folder or find_recorded_run()
    campaign, result = _find(mutant, folder)
    summary = _load_summary(folder)
    wanted = []
    for each in given:
        case, target = split_cell_id(each)
        suite = find_case(suites, case)[1].name
        wanted.append(
            Cell(
                case=case,
                target=str(target),
                status=Status.PASSED,
                suite=suite,
                seconds=_UNKNOWN_SECONDS,
            )
        )
    with CoverageMap(folder / MAP_FILE) as recorded:
        records = select_cells(campaign.info.target, load(folder).cells, summary)
        (judged,) = judge_mutants(
            [result.mutant],
            CellChooser(recorded, records, wanted),
            describe_refusal,
            suites=suites,
            cells=cells,
            sampled=False,
            workers=1,
        )
    click.echo(terminal.describe(judged))
    if judged.outcome is MutantOutcome.INVALID:
        sys.exit(2)
    sys.exit(1 if views.is_survivor(judged, campaign) else 0)


@mutate.command(short_help="Print mutants that are no longer noticed.")
@click.argument("before", type=click.Path(path_type=Path), metavar="OLD_RUN")
@click.argument("after", type=click.Path(path_type=Path), metavar="NEW_RUN")
@_LIMIT
def compare(before: Path, after: Path, limit: int) -> None:
    """Print the mutants that both runs judged and whose outcome differs.

    Mutants are compared by the changed text, so that the runs may be of different versions of
    ExecuTorch. Exit code 0 if no mutant was noticed before and is not now, 1 if one was.
    """
    from rich.console import Console

    from reports.mutation import terminal, views

    old = {each.info.target: each for each in _read(before)}
    new = {each.info.target: each for each in _read(after)}
    worse = False
    for target in sorted(old.keys() & new.keys()):
        changes = views.compare_campaigns(old[target], new[target])
        terminal.render_changes(target, changes, Console(), limit=limit)
        worse = worse or any(each.is_worse for each in changes)
    for target in sorted(old.keys() ^ new.keys()):
        click.echo(f"{target}: only one of the runs has results")
    sys.exit(1 if worse else 0)


def _load_summary(folder: Path) -> CoverageSummary:
    """Load the summary of a recorded run whose code can be mutated here.

    Raises:
        ConformError: the versions differ.
        UsageError: the system cannot fork a process that has loaded torch.
    """
    from harness.coverage.unexecuted import find_installed_versions, load_summary
    from harness.coverage.vendor_code import list_vendor_files
    from harness.errors import ConformError, UsageError
    from harness.workers.fork_server import is_supported

    if not is_supported():
        raise UsageError("conform mutate forks processes that have loaded torch, on Linux only")
    summary, installed = load_summary(folder), find_installed_versions(list_vendor_files())
    if summary.packages != installed:
        old, new = (
            ", ".join(f"{name} {version}" for name, version in each.items())
            for each in (summary.packages, installed)
        )
        raise ConformError(
            f"{folder} was recorded with {old}; installed is {new}; record a run with it: "
            "conform coverage record"
        )
    return summary


def _read(folder: Path | None, target: str = "") -> list[Campaign]:
    """Read the campaigns of a run, with the reviews of today.

    Raises:
        ConformError: there is none.
    """
    from harness.coverage.mutation.mutant import list_campaigns
    from harness.coverage.mutation.reviews import read_reviews
    from harness.errors import ConformError

    folder, reviews = folder or find_recorded_run(), read_reviews(SUITES)
    found = [
        structs.replace(each, info=structs.replace(each.info, reviews=reviews))
        for each in list_campaigns(folder)
        if target in ("", each.info.target)
    ]
    if not found:
        name = target or "TARGET"
        raise ConformError(
            f"{folder} has no mutants of {name}; judge some: conform mutate {name} --run {folder}"
        )
    return found


def _find(mutant: str, folder: Path) -> tuple[Campaign, MutantResult]:
    """Find a judged mutant by its id, or the beginning of it, and its campaign.

    Raises:
        UsageError: there is none, or several.
    """
    from harness.errors import UsageError

    found = [
        (campaign, result)
        for campaign in _read(folder)
        for name, result in campaign.results.items()
        if name.startswith(mutant)
    ]
    if len({result.mutant.id for _, result in found}) != 1:
        what = "several mutants begin" if found else "no judged mutant begins"
        raise UsageError(f"{what} with {mutant} in {folder}; conform mutate score lists survivors")
    return found[0]
