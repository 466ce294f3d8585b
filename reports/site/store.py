"""Find the runs of a site in run folders and folders of runs, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness.errors import RunUnreadable
from harness.record.folder import NOT_A_RECORD, RUN_FILE
from reports.moment import parse_time


class _Start(msgspec.Struct):
    started: str = ""


@dataclass
class FoundRuns:
    """Run folders, newest first, and messages about damaged runs."""

    runs: list[Path] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def find_runs(places: Sequence[Path]) -> FoundRuns:
    """Find the runs at and directly below these paths, each once.

    A run without a readable start time counts as the oldest. A damaged run in a folder of runs is
    omitted and named in ``unreadable``.

    Raises:
        RunUnreadable: a path is not a folder, a named run cannot be read, or there is no run.
    """
    found = FoundRuns()
    dated: list[tuple[float, str, Path]] = []
    seen: set[Path] = set()
    for place, named in _folders(places):
        if place.resolve() in seen:
            continue
        seen.add(place.resolve())
        try:
            start = msgspec.json.decode((place / RUN_FILE).read_bytes(), type=_Start).started
        except (OSError, *NOT_A_RECORD) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            if named:
                raise RunUnreadable(f"{place / RUN_FILE} cannot be read: {why}") from error
            found.unreadable.append(f"{place.name}: {RUN_FILE} cannot be read: {why}")
            continue
        dated.append((_seconds(start), place.name, place))
    if not dated:
        where = ", ".join(map(str, places))
        raise RunUnreadable(f"no run in {where}; make one with: conform run")
    found.runs = [place for *_, place in sorted(dated, reverse=True)]
    return found


def _folders(places: Iterable[Path]) -> Iterable[tuple[Path, bool]]:
    for place in places:
        if not place.is_dir():
            raise RunUnreadable(f"{place} is not a folder; name a run or a folder of runs")
        if (place / RUN_FILE).exists():
            yield place, True
            continue
        yield from ((file.parent, False) for file in sorted(place.glob(f"*/{RUN_FILE}")))


def _seconds(started: str) -> float:
    when = parse_time(started)
    return 0.0 if when is None else when.timestamp()
