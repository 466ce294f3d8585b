"""False alarms: how often a correct program fails, for one lowered program and many inputs.

    python -m benchmarks.verdicts.false_alarms --seeds 10 --cases '*/tiny' --targets 'xnnpack:*'

Lowers each case below PATHS (default ``suites/models``) once on each of its targets, and compares
its outputs for the inputs of other seeds. Skips cells with a known issue, cells that do not lower
(these are listed), and cells for which the runtime has no kernels. Prints for each target the
number of draws, the number of failures, and the largest bound used. Weights are drawn with the
first seed; ``pytest --seed N`` draws them again. Exits with 1 if any output was wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import click
import torch
from rich.console import Console
from rich.table import Table

from harness import Case, Tester, registry
from harness.errors import MissingKernels, StageFailure
from harness.model.limitation import Limitation, find_limitation
from harness.pipeline import speed
from harness.pipeline.route import find_unsupported_reason, lower
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.record.target import Target
from harness.session.discovery import load_suite, load_suites
from harness.vendors.quiet import silence_vendors


@dataclass
class DrawResults:
    """Results of all draws on one target."""

    draws: int = 0
    used: float = 0.0
    wrong: list[str] = field(default_factory=list)


@click.command(help=__doc__)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--seeds", default=10, help="Number of inputs.")
@click.option("--first", default=0, help="First seed, also used for the weights.")
@click.option("--cases", "names", default="*", help="Globs over cases, separated by |.")
@click.option("--targets", default="*", help="Globs over targets, separated by |.")
@click.option("--part", default="1/1", help="Run every Nth case: 1/2 and 2/2 share the work.")
def main(
    paths: Sequence[Path], seeds: int, first: int, names: str, targets: str, part: str
) -> None:
    """Measure and print."""
    silence_vendors()
    torch.set_num_threads(1)
    speed.install()
    chosen = select_cases(paths, names, part)
    console, tallies = Console(), dict[Target, DrawResults]()
    for number, (case, limitations) in enumerate(chosen, start=1):
        testers, failed = {}, list[str]()
        for target, tester in _prepare_testers(case, targets, limitations, first):
            try:
                lower(tester)
            except StageFailure as failure:  # ExecuTorch refuses operators outside of core ATen
                failed.append(f"  {case.name}@{target} does not lower: {failure}")
            else:
                testers[target] = tester
        console.print(f"{number} of {len(chosen)}: {case.name}, {len(testers)} targets")
        for line in failed:
            console.print(line, markup=False)
        for seed in range(first, first + seeds):
            for target, tester in testers.items():
                wrong = _judge(tester, seed, tallies.setdefault(target, DrawResults()))
                if wrong:
                    console.print(f"  {case.name}@{target} seed {seed}: {wrong}", markup=False)
    if not tallies:
        raise click.UsageError(f"none of these cases has a target that matches {targets!r}")
    _print(console, tallies)
    sys.exit(any(tally.wrong for tally in tallies.values()))


def select_cases(
    paths: Sequence[Path], names: str, part: str = "1/1"
) -> list[tuple[Case, Sequence[Limitation]]]:
    """Return cases of a plain run below some folders or in some modules, with their known issues.

    Args:
        paths: default: the models.
        names: globs over cases, separated by ``|``.
        part: ``1/2`` and ``2/2`` share the cases.

    Raises:
        click.UsageError: no case matches.
    """
    place, parts = map(int, part.split("/"))
    chosen = [
        (case, suite.limitations)
        for path in paths or [Path("suites/models")]
        for suite in ([load_suite(path)] if path.is_file() else load_suites(path))
        for case in suite.cases
        if "nightly" not in case.tags and matches(names, case.name)
    ][place - 1 :: parts]
    if not chosen:
        raise click.UsageError(f"no case below {', '.join(map(str, paths))} matches {names!r}")
    return chosen


def matches(globs: str, name: str) -> bool:
    """Whether one of several globs, separated by ``|``, matches a name."""
    return any(fnmatchcase(name, each) for each in globs.split("|"))


def _prepare_testers(
    case: Case, globs: str, limitations: Sequence[Limitation], seed: int
) -> Iterator[tuple[Target, Tester]]:
    """Yield testers of the case on its targets without a known issue."""
    shared_work = SharedCaseWork()
    for target in registry.select_targets(case, None):
        if (
            not matches(globs, str(target))
            or find_limitation(limitations, case, target) is not None
        ):
            continue
        if not registry.backend(target.backend).availability().available:
            continue
        tester = Tester(case, target, seed=seed, shared_work=shared_work)
        if find_unsupported_reason(tester) is None:
            yield target, tester


def _judge(tester: Tester, seed: int, tally: DrawResults) -> str | None:
    """Return the problem of the outputs for one seed's inputs, or None."""
    calls = tester.case.make(seed).cast(tester.recipe.dtype).calls
    try:
        verdict = tester.run(calls).compare().verdict
    except StageFailure as failure:
        if isinstance(failure.cause, MissingKernels):
            return None  # a missing kernel is not a wrong verdict
        problem = str(failure)
    else:
        tally.used = max([tally.used, *(row.bound_used for row in verdict.numerics)])
        problem = "" if verdict.passed else verdict.problem or "it does not say what"
    tally.draws += 1
    if not problem:
        return None
    tally.wrong.append(problem)
    return problem


def _print(console: Console, tallies: dict[Target, DrawResults]) -> None:
    table = Table(title="inputs of one program each")
    for column in ("target", "draws", "wrong", "largest bound used"):
        table.add_column(column, justify="left" if column == "target" else "right")
    for target, tally in sorted(tallies.items(), key=lambda item: str(item[0])):
        table.add_row(str(target), str(tally.draws), str(len(tally.wrong)), f"{tally.used:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
