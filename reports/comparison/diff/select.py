"""Select changes of a diff by kind and target."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterable

from harness.errors import UsageError
from harness.record.target import matches_any_glob
from reports.comparison.diff.compare import Change, Diff
from reports.comparison.diff.kinds import ChangeKind


def parse_kinds(names: Iterable[str]) -> list[ChangeKind]:
    """Parse names of kinds.

    Raises:
        UsageError: there is no such kind.
    """
    known = {kind.value: kind for kind in ChangeKind}
    made = []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise UsageError(f"no kind of change is called {name!r}; {hint}")
        made.append(known[name])
    return made


def select_changes(
    found: Diff, *, kinds: Iterable[ChangeKind] = (), target: str | None = None
) -> Diff:
    """Return the diff with only the selected changes.

    Args:
        found: a diff.
        kinds: kinds to keep; all if empty.
        target: glob over ``backend:recipe``; several with ``|``.
    """
    wanted = set(kinds)
    changes = [
        change
        for change in (each for one in found.changes for each in _split_change(one, wanted))
        if (not wanted or change.kind in wanted)
        and (target is None or matches_any_glob(target, change.target))
    ]
    return dataclasses.replace(found, changes=changes)


def _split_change(change: Change, wanted: Collection[ChangeKind]) -> Iterable[Change]:
    """A change; if its kind is not wanted, the changes that follow from it."""
    return change.followers if wanted and change.kind not in wanted else [change]
