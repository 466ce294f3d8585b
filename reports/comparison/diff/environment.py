"""Differences of two runs besides their cells. Reports show them before the changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reports import facts, text
from reports.comparison.snapshot import CellFacts, RunSnapshot

_FIELDS = ("python", "platform", "machine", "processor", "cores", "host")


@dataclass(frozen=True)
class EnvironmentChange:
    """A fact that differs between the runs; an empty value is not known."""

    name: str
    before: str
    after: str


def environment_changes(before: RunSnapshot, after: RunSnapshot) -> list[EnvironmentChange]:
    """Differences of seed, commit, selection, targets, backends, packages and host."""
    old, new = describe_run(before), describe_run(after)
    return [
        EnvironmentChange(name, old.get(name, ""), new.get(name, ""))
        for name in dict.fromkeys([*old, *new])
        if old.get(name, "") != new.get(name, "")
    ]


def times_comparable(
    before: RunSnapshot, after: RunSnapshot, cells: tuple[CellFacts, CellFacts]
) -> bool:
    """Whether the times of one cell in the two runs can be compared."""
    old, new = cells
    return facts.same_host(before.environment(old), after.environment(new))


def describe_run(run: RunSnapshot) -> dict[str, str]:
    """The facts of a run that are compared, by name; an empty value is not known."""
    info, places = run.info, run.environments
    made = {
        "seed": str(info.seed),
        "commit": _each(place.revision for place in places),
        "selection": info.selection,
        "targets": " ".join(sorted(info.targets)),
    }
    for name in _FIELDS:
        made[name] = _each(str(getattr(place, name) or "") for place in places)
    for package in sorted({name for place in places for name in place.packages}):
        made[package] = _each(place.packages.get(package, "") for place in places)
    for name, state in sorted(info.backends.items()):
        made[f"backend {name}"] = (
            f"available, {state.runtime} runtime" if state.available else "unavailable"
        )
    return {text.line(name, 80): text.line(value, 300) for name, value in made.items()}


def _each(values: Iterable[str]) -> str:
    return " | ".join(sorted({value for value in values if value}))
