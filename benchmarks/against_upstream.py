r"""Runs the same programs with upstream's operator suite and with ours, in turn.

    python -m benchmarks.against_upstream [--flow xnnpack] [-n 2] [--rounds 3] [--every K]
    python -m benchmarks.against_upstream --warm \
        --targets xnnpack:fp32,tosa:fp,mlx:fp32,metal:fp32

A round is upstream's suite on one flow, and then ours (``suites/upstream``) on the same test
functions, each as a complete command: start, collection, workers. Ours also executes programs
without a delegate, and compares with derived bounds. Prints wall and CPU seconds of both, their
ratio with its spread over the rounds, and every program that upstream passes and ours does not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from benchmarks.command_cost import CommandCost, Ratio, run_command, write_figures

FLOWS = {"xnnpack": "xnnpack:fp32", "arm_tosa_fp": "tosa:fp"}
"""Flows of upstream, and the equivalent targets."""
_SUITE = Path("suites/upstream/operators.py")


class ComparedTest(NamedTuple):
    """A test function of upstream, and the names of our cases for its programs."""

    test: str
    cases: tuple[str, ...]


class Round(NamedTuple):
    """The cost of both suites on the same programs."""

    upstream: CommandCost
    ours: CommandCost


def list_tests(every: int = 1) -> list[ComparedTest]:
    """Return every ``every``-th test function that upstream does not skip itself."""
    from suites.upstream.harvest import harvest, make_cases

    found = [each for each in harvest() if each.skips is None]
    return [
        ComparedTest(
            f"test_{each.operator}.py::{each.name}", tuple(case.name for case in make_cases(each))
        )
        for each in found[::every]
    ]


def run_upstream(flow: str, tests: Sequence[str], workers: int, report: Path) -> CommandCost:
    """Run upstream's suite as its own CI does.

    Args:
        flow: upstream's name of a backend with a recipe.
        tests: tests to run; empty for all.
        workers: number of processes.
        report: JUnit file to write.
    """
    from executorch.backends.test.suite import operators

    (folder,) = operators.__path__
    suite = Path(folder).parent
    options = ["-c", "/dev/null", f"--rootdir={suite}", "-p", "no:cacheprovider"]
    selected = ["-m", f"flow_{flow}", *([f"{folder}/{test}" for test in tests] or [folder])]
    command = [sys.executable, "-m", "pytest", "-q", *options, "-n", str(workers)]
    return run_command([*command, f"--junitxml={report}", *selected], suite)


def run_ours(targets: str, cases: Sequence[str], workers: int, run: Path) -> CommandCost:
    """Run the same programs as cells.

    Args:
        targets: as for ``--targets``.
        cases: cases to run; empty for all that upstream does not skip.
        workers: number of processes.
        run: the run folder.
    """
    cells = [f"{_SUITE}::{name}@{target}" for name in cases for target in targets.split(",")]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "upstream and not skipped_upstream"]
    options = ["-n", str(workers), "--targets", targets, "--run-dir", str(run)]
    return run_command([*command, *options, *(cells or [str(_SUITE)])], Path.cwd())


def read_passed(report: Path) -> set[str]:
    """Return the test functions that upstream's suite passed, named as in ``ComparedTest``."""
    found: set[str] = set()
    for test in ElementTree.parse(report).iter("testcase"):
        if not len(test):  # failures, errors and skips have child elements
            module = test.attrib["classname"].rpartition(".")[2]
            found.add(f"{module}.py::{test.attrib['name'].partition('[')[0]}")
    return found


class MissingPass(NamedTuple):
    """A cell that does not pass, for a program that upstream's suite passes.

    Attributes:
        cell: its id.
        status: its status.
        reason: reason of the known issue, or its error.
        red: whether it is red.
    """

    cell: str
    status: str
    reason: str
    red: bool


def find_missing(chosen: Sequence[ComparedTest], report: Path, run: Path) -> list[MissingPass]:
    """Return cells that do not pass although upstream's suite passes the program."""
    from harness import Status
    from harness.record.folder import load

    well = read_passed(report)
    theirs = {case for each in chosen if each.test in well for case in each.cases}
    return [
        MissingPass(
            cell.id,
            cell.status.value,
            (cell.limitation.reason if cell.limitation else cell.error) or "",
            cell.status.is_red,
        )
        for cell in load(run).cells
        if cell.case in theirs and cell.status is not Status.PASSED
    ]


def print_cost(name: str, made: CommandCost) -> None:
    """Print a line for a command, with its own last line."""
    closing = made.output.strip().splitlines()[-1:]
    print(f"{name:9}{made.wall:8.1f} s wall{made.cpu:8.1f} s CPU  {closing}", flush=True)


def main() -> None:
    """Measure, print a line for each round and the ratios; fail where a program is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--flow", choices=FLOWS, default="xnnpack", help="flow of upstream (%(default)s)"
    )
    parser.add_argument(
        "--targets", help="our targets, comma-separated (the equivalent of the flow)"
    )
    parser.add_argument(
        "-n", dest="workers", type=int, default=2, help="number of processes (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (%(default)s)")
    parser.add_argument("--every", type=int, default=1, help="run every Kth test function (1)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--warm",
        action="store_true",
        help="run ours once before, so that Metal's code and kernels are cached",
    )
    given = parser.parse_args()
    targets = given.targets or FLOWS[given.flow]
    chosen = list_tests(given.every)
    sampled = chosen if given.every > 1 else []
    cells = sum(len(each.cases) for each in chosen) * len(targets.split(","))
    print(f"{len(chosen)} test functions of upstream; {cells} cells on {targets}", flush=True)
    rounds: list[Round] = []
    cases = [name for each in sampled for name in each.cases]
    with tempfile.TemporaryDirectory() as folder:
        before = None
        if given.warm:
            before = run_ours(targets, cases, given.workers, Path(folder) / "before")
            print_cost("before", before)
        for number in range(given.rounds):
            report, run = Path(folder) / f"{number}.xml", Path(folder) / str(number)
            first = run_upstream(given.flow, [each.test for each in sampled], given.workers, report)
            rounds.append(Round(first, run_ours(targets, cases, given.workers, run)))
            for name, made in zip(("upstream", "ours"), rounds[-1], strict=True):
                print_cost(name, made)
        missing = find_missing(chosen, report, run)
    walls = Ratio.from_rounds(
        [each.upstream.wall for each in rounds], [each.ours.wall for each in rounds]
    )
    cpus = Ratio.from_rounds(
        [each.upstream.cpu for each in rounds], [each.ours.cpu for each in rounds]
    )
    print(f"upstream takes {walls} times as long, and {cpus} times the CPU")
    print(f"{len(missing)} cells do not pass although upstream passes the program")
    for each in missing:
        print(f"  {each.cell}: {each.status}: {each.reason}")
    write_figures(
        given.json,
        "against_upstream",
        flow=given.flow,
        targets=targets,
        workers=given.workers,
        before=before and [before.wall, before.cpu],
        functions=len(chosen),
        cells=cells,
        rounds=[
            {name: [made.wall, made.cpu] for name, made in each._asdict().items()}
            for each in rounds
        ],
        wall=walls._asdict(),
        cpu=cpus._asdict(),
        lost=[each._asdict() for each in missing],
    )
    sys.exit(any(each.red for each in missing))


if __name__ == "__main__":
    main()
