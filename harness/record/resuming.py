"""Check whether a stopped run can be completed here, and report what has changed since it began."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.errors import RunUnreadable, UsageError
from harness.record.folder import RUN_FILE, load
from harness.record.host import Environment
from harness.record.run import Run

_NAMED = 6


def load_stopped_run(folder: Path) -> Run:
    """Load a stopped run, without a line that was incomplete when it stopped.

    Raises:
        RunUnreadable: the folder is no run, or has other damage.
        UsageError: the run is complete, or was merged from others.
    """
    if not folder.is_dir():
        raise RunUnreadable(f"cannot resume {folder}: there is no such folder")
    run = load(folder, torn=False)
    # The number of records of an interrupted run; now its complete lines count.
    damage = [line for line in run.damage if "contradicts itself" in line or " line " in line]
    if damage:
        raise RunUnreadable(f"cannot resume {folder}: {damage[0]}")
    if run.info.merged_from:
        raise UsageError(f"cannot resume {folder}: it was merged of several runs")
    if run.info.complete and not run.missing:
        raise UsageError(f"{folder} is complete already; nothing of it is left to run")
    if not run.info.expected:
        raise UsageError(
            f"cannot resume {folder}: {RUN_FILE} does not say what was expected, as the run ended "
            "before it had collected; run it again"
        )
    return run


def check_unchanged(run: Run, here: Environment, inputs: Mapping[str, str]) -> None:
    """Refuse to resume a run under other conditions.

    Args:
        run: the run to complete.
        here: this host, its packages and its checkout.
        inputs: digests of the cells' dependencies, as in ``RunInfo.dependency_digests``.

    Raises:
        UsageError: the message names the differences.
    """
    was = run.info.environment
    changed = [
        f"{name} is {new or 'not known'}, was {old or 'not known'}"
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
    # Differences without a name above: untracked files, packages that are not recorded.
    unnamed = [
        f"{name} are not what they were"
        for name, digest in run.info.dependency_digests.items()
        if inputs.get(name, digest) != digest
    ]
    if changed := changed or unnamed:
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        raise UsageError(
            f"cannot resume {run.path}: {'; '.join(changed[:_NAMED])}{more}. Its records would be "
            "of two things; run it anew"
        )
