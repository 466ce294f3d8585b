"""Check whether an interrupted run can be completed here: same code, packages and machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.errors import RunUnreadable, UsageError
from harness.record.folder import RUN_FILE, load
from harness.record.host import Environment
from harness.record.run import Run

_NAMED = 6


def load_stopped_run(folder: Path) -> Run:
    """Load an interrupted run, without the incomplete line at its end.

    Raises:
        RunUnreadable: the folder contains no run, or the run is damaged otherwise.
        UsageError: the run is complete, was merged from others, or lists no expected cells.
    """
    if not folder.is_dir():
        raise RunUnreadable(f"cannot resume {folder}: the folder does not exist")
    run = load(folder, torn=False)
    # An interrupted run misses records, which is no damage here.
    damage = [line for line in run.damage if "contradicts itself" in line or " line " in line]
    if damage:
        raise RunUnreadable(f"cannot resume {folder}: {damage[0]}")
    if run.info.merged_from:
        raise UsageError(f"cannot resume {folder}: it was merged from other runs")
    if run.info.complete and not run.missing:
        raise UsageError(f"{folder} is complete; there is nothing to resume")
    if not run.info.expected:
        raise UsageError(
            f"cannot resume {folder}: {RUN_FILE} lists no expected cells, because the run stopped "
            "during collection; start a new run"
        )
    return run


def check_unchanged(run: Run, here: Environment, inputs: Mapping[str, str]) -> None:
    """Refuse to resume a run whose code, packages or machine have changed.

    Args:
        run: the run to complete.
        here: this host, its packages and its checkout.
        inputs: digests of the cells' dependencies, as in ``RunInfo.dependency_digests``.

    Raises:
        UsageError: the message names the differences.
    """
    was = run.info.environment
    changed = [
        f"{name} is {new or 'unknown'}, was {old or 'unknown'}"
        for name, old, new in (
            ("Python", was.python, here.python),
            ("the machine", was.vectors or was.machine, here.vectors or here.machine),
            ("the checkout", was.revision, here.revision),
        )
        if old != new
    ]
    for name in sorted({*was.packages, *here.packages}):
        old, new = was.packages.get(name), here.packages.get(name)
        if old != new:
            changed.append(f"{name} is {new or 'not installed'}, was {old or 'not installed'}")
    # The digests also cover untracked files and packages that are not recorded.
    unnamed = [
        f"{name} have changed"
        for name, digest in run.info.dependency_digests.items()
        if inputs.get(name, digest) != digest
    ]
    if changed := changed or unnamed:
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        raise UsageError(
            f"cannot resume {run.path}: {'; '.join(changed[:_NAMED])}{more}. All records "
            "of a run must come from the same code, packages and machine; start a new run"
        )
