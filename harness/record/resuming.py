"""Whether a run that was stopped can be completed here: what was otherwise when it began."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.errors import RunUnreadable, UsageError
from harness.record.folder import RUN_FILE, load
from harness.record.host import Environment
from harness.record.run import Run

_NAMED = 6


def load_stopped_run(folder: Path) -> Run:
    """A run that ended before all of its cells had, without the line that was being written then.

    Raises:
        RunUnreadable: the folder is no run, or damaged elsewhere.
        UsageError: the run is complete, or was merged of others.
    """
    if not folder.is_dir():
        raise RunUnreadable(f"cannot resume {folder}: there is no such folder")
    run = load(folder, torn=False)
    # How many records a run that was stopped by hand wrote; whole lines are what counts now.
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
    """Refuse to add records to a run that would not be of the same thing.

    Args:
        run: which is to be completed.
        here: this host, its packages and its checkout.
        inputs: digests of what cells hang on, as in ``RunInfo.dependency_digests``.

    Raises:
        UsageError: naming what is otherwise.
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
    # What has no name of its own: files that git does not know, packages that are not recorded.
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
