r"""The same programs through upstream's operator suite and through ours, in turn.

    python -m benchmarks.against_upstream [--flow xnnpack] [-n 2] [--rounds 3] [--every K]
    python -m benchmarks.against_upstream --warm \
        --targets xnnpack:fp32,tosa:fp,mlx:fp32,metal:fp32

A round is upstream's suite on one flow, and then ours (``suites/upstream``) on the same test
functions, each as a command of its own with everything that it does: start, collection, workers.
Ours executes what nothing was delegated of as well, and compares with derived bounds. Printed are
wall and CPU seconds of both, their ratio with its spread over the rounds, and every program that
upstream passes and we do not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from benchmarks.measured import Ratio, Spent, spent, write

FLOWS = {"xnnpack": "xnnpack:fp32", "arm_tosa_fp": "tosa:fp"}
"""Flows of upstream, and the target that does the same."""
_SUITE = Path("suites/upstream/operators.py")


class Function(NamedTuple):
    """A test function of upstream, and the names of our cases of its programs."""

    test: str
    cases: tuple[str, ...]


class Round(NamedTuple):
    """One after the other on the same programs."""

    upstream: Spent
    ours: Spent


def functions(every: int = 1) -> list[Function]:
    """Every so manieth test function that upstream does not skip by itself."""
    from suites.upstream.harvest import cases_of, harvest

    found = [each for each in harvest() if each.skips is None]
    return [
        Function(
            f"test_{each.operator}.py::{each.name}", tuple(case.name for case in cases_of(each))
        )
        for each in found[::every]
    ]


def upstream(flow: str, tests: Sequence[str], workers: int, report: Path) -> Spent:
    """Upstream's suite, as its own CI starts it.

    Args:
        flow: its word for a backend with a recipe.
        tests: those to run; empty for all.
        workers: processes.
        report: JUnit file that it writes.
    """
    from executorch.backends.test.suite import operators

    (folder,) = operators.__path__
    suite = Path(folder).parent
    options = ["-c", "/dev/null", f"--rootdir={suite}", "-p", "no:cacheprovider"]
    selected = ["-m", f"flow_{flow}", *([f"{folder}/{test}" for test in tests] or [folder])]
    command = [sys.executable, "-m", "pytest", "-q", *options, "-n", str(workers)]
    return spent([*command, f"--junitxml={report}", *selected], suite)


def ours(targets: str, cases: Sequence[str], workers: int, run: Path) -> Spent:
    """The same programs as cells of a run of ours.

    Args:
        targets: as ``--targets`` takes them.
        cases: those to run; empty for all that upstream does not skip.
        workers: processes.
        run: its folder.
    """
    cells = [f"{_SUITE}::{name}@{target}" for name in cases for target in targets.split(",")]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "upstream and not skipped_upstream"]
    options = ["-n", str(workers), "--targets", targets, "--run-dir", str(run)]
    return spent([*command, *options, *(cells or [str(_SUITE)])], Path.cwd())


def passed(report: Path) -> set[str]:
    """The test functions that upstream's suite passed, by the name they have in ``Function``."""
    found: set[str] = set()
    for test in ElementTree.parse(report).iter("testcase"):
        if not len(test):  # a failure, an error and a skip are elements in it
            module = test.attrib["classname"].rpartition(".")[2]
            found.add(f"{module}.py::{test.attrib['name'].partition('[')[0]}")
    return found


class Lost(NamedTuple):
    """A cell that does not pass, of a program that upstream's suite passes.

    Attributes:
        cell: its id.
        status: its own.
        reason: the limitation's, or what went wrong.
        red: nothing explains it.
    """

    cell: str
    status: str
    reason: str
    red: bool


def lost(chosen: Sequence[Function], report: Path, run: Path) -> list[Lost]:
    """What upstream passes and we do not."""
    from harness import Status
    from harness.record.folder import load

    well = passed(report)
    theirs = {case for each in chosen if each.test in well for case in each.cases}
    return [
        Lost(
            cell.id,
            cell.status.value,
            (cell.limitation.reason if cell.limitation else cell.error) or "",
            cell.status.is_red,
        )
        for cell in load(run).cells
        if cell.case in theirs and cell.status is not Status.PASSED
    ]


def show(name: str, made: Spent) -> None:
    """A line for a command, with its own last one."""
    closing = made.output.strip().splitlines()[-1:]
    print(f"{name:9}{made.wall:8.1f} s wall{made.cpu:8.1f} s CPU  {closing}", flush=True)


def main() -> None:
    """Measure, print a line a round and the ratios, and fail where a program is lost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--flow", choices=FLOWS, default="xnnpack", help="of upstream (%(default)s)"
    )
    parser.add_argument("--targets", help="ours, separated by commas (what the flow does)")
    parser.add_argument("-n", dest="workers", type=int, default=2, help="processes (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of both (%(default)s)")
    parser.add_argument("--every", type=int, default=1, help="take each Kth test function (1)")
    parser.add_argument("--json", type=Path, help="keep the figures there")
    parser.add_argument(
        "--warm",
        action="store_true",
        help="run ours once before: Metal's code and kernels are kept from then on",
    )
    given = parser.parse_args()
    targets = given.targets or FLOWS[given.flow]
    chosen = functions(given.every)
    sampled = chosen if given.every > 1 else []
    cells = sum(len(each.cases) for each in chosen) * len(targets.split(","))
    print(f"{len(chosen)} test functions of upstream; {cells} cells on {targets}", flush=True)
    rounds: list[Round] = []
    cases = [name for each in sampled for name in each.cases]
    with tempfile.TemporaryDirectory() as folder:
        before = None
        if given.warm:
            before = ours(targets, cases, given.workers, Path(folder) / "before")
            show("before", before)
        for number in range(given.rounds):
            report, run = Path(folder) / f"{number}.xml", Path(folder) / str(number)
            first = upstream(given.flow, [each.test for each in sampled], given.workers, report)
            rounds.append(Round(first, ours(targets, cases, given.workers, run)))
            for name, made in zip(("upstream", "ours"), rounds[-1], strict=True):
                show(name, made)
        missing = lost(chosen, report, run)
    walls = Ratio.of([each.upstream.wall for each in rounds], [each.ours.wall for each in rounds])
    cpus = Ratio.of([each.upstream.cpu for each in rounds], [each.ours.cpu for each in rounds])
    print(f"upstream takes {walls} times as long, and {cpus} times the CPU")
    print(f"{len(missing)} cells of what upstream passes do not pass")
    for each in missing:
        print(f"  {each.cell}: {each.status}: {each.reason}")
    write(
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
