"""Merge runs of several hosts or shards into one run folder, which loads like any other."""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness.coverage.claims import read_claims, write_claims
from harness.errors import RunUnwritable, UsageError
from harness.record.cell import Cell, Status
from harness.record.folder import SAVED, RunWriter, check_writable, load as load_run
from harness.record.host import Environment
from harness.record.run import BackendState, MergedPart, Run, RunInfo
from reports import text
from reports.facts import is_kept_folder
from reports.outcome import CellOutcome

# Rank of a record: one that is lowered only supersedes an unavailable one; an executed (or
# otherwise conclusive) one supersedes both.
_KNOWS = {Status.UNAVAILABLE: 0, Status.LOWERED: 1}
_ANSWER = 2


@dataclass
class MergeResult:
    """The result of a merge.

    Attributes:
        run: the merged run, loaded from its folder.
        conflicts: cells with different outcomes in several parts, one line each.
        overlaps: number of cells that several parts recorded, with equal outcomes or not.
        superseded: number of records left out because another part executed the cell.
        remarks: remarks on the merge, one line each.
    """

    run: Run
    conflicts: list[str] = field(default_factory=list)
    overlaps: int = 0
    superseded: int = 0
    remarks: list[str] = field(default_factory=list)


def merge(out: Path, runs: Sequence[Run]) -> MergeResult:
    """Merge runs into a new or empty folder.

    If several parts have a cell, all records are kept and the worst counts. A record of a part
    that could not execute the cell (unavailable, or lowered only) is left out if another part
    executed it; the part lists the ids it left out. Conflicts, and parts of different seeds or
    commits, are problems of the merged run.

    Args:
        out: folder of the merged run.
        runs: loaded runs, at least two; a merged run contributes its parts.

    Raises:
        UsageError: fewer than two runs, or one of them twice.
        RunUnwritable: the folder exists, or the disk refuses.
    """
    if len(runs) < 2:
        raise UsageError("a merge takes at least two runs")
    places = Counter(run.path.resolve() for run in runs)
    if twice := [path for path, number in places.items() if number > 1]:
        raise UsageError(f"{twice[0]} is given twice; its cells would count as an overlap")
    check_writable(out)
    if out.exists() and any(out.iterdir()):
        raise RunUnwritable(f"{out} is not empty; choose another folder")
    parts, cells, folders = _parts(runs)
    kept, superseded = _select_records(cells)
    for part in parts:
        part.superseded = [*part.superseded, *superseded.get(part.name, [])]
    overlaps, conflicts = _conflicts(kept)
    info = _info(runs, parts, kept, conflicts)
    _write(out, info, kept, folders, [run.path for run in runs])
    return MergeResult(
        run=load_run(out),
        conflicts=conflicts,
        overlaps=overlaps,
        superseded=sum(map(len, superseded.values())),
        remarks=_remarks(parts, superseded),
    )


def _parts(runs: Sequence[Run]) -> tuple[list[MergedPart], list[Cell], dict[str, Path]]:
    """The parts with unique names, all records with the name of their part, and the folders of kept
    files by their path in the merged run."""
    parts: list[MergedPart] = []
    cells: list[Cell] = []
    taken: set[str] = set()
    folders: dict[str, Path] = {}
    for number, run in enumerate(runs):
        renamed: dict[str | None, str] = {}
        for part in run.info.merged_from or [_part(run)]:
            name = _free(part.name, taken)
            taken.add(name)
            renamed[part.name if run.info.merged_from else None] = name
            parts.append(msgspec.structs.replace(part, name=name))
        only = next(iter(renamed.values()))
        for cell in run.cells:
            there = is_kept_folder(cell.saved_to) and (run.path / cell.saved_to).is_dir()
            place = f"{SAVED}/{number}-{Path(cell.saved_to).name}" if there else ""
            if there:
                folders[place] = run.path / cell.saved_to
            whose = renamed.get(cell.merged_part, only)
            cells.append(msgspec.structs.replace(cell, merged_part=whose, saved_to=place))
    return parts, cells, folders


def _part(run: Run) -> MergedPart:
    info = run.info
    return MergedPart(
        name=text.line(run.path.resolve().name, 80),
        started=info.started,
        ended=info.ended,
        complete=run.is_complete,
        exit_status=info.exit_status,
        seed=info.seed,
        command=info.command,
        selection=info.selection,
        targets=info.targets,
        expected=len(info.expected),
        cells=len(run.cells),
        backends=info.backends,
        problems=[*info.problems, *run.damage],
        environment=info.environment,
    )


def _free(name: str, taken: set[str]) -> str:
    number, made = 1, name
    while made in taken:
        number += 1
        made = f"{name}-{number}"
    return made


def _select_records(cells: list[Cell]) -> tuple[list[Cell], dict[str, list[str]]]:
    """The records that no other part supersedes, and the ids of superseded records by part."""
    most: dict[str, int] = defaultdict(int)
    for cell in cells:
        most[cell.id] = max(most[cell.id], _KNOWS.get(cell.status, _ANSWER))
    kept: list[Cell] = []
    left_out: dict[str, list[str]] = defaultdict(list)
    for cell in cells:
        if _KNOWS.get(cell.status, _ANSWER) < most[cell.id]:
            left_out[cell.merged_part or ""].append(cell.id)
        else:
            kept.append(cell)
    return kept, left_out


def _conflicts(cells: list[Cell]) -> tuple[int, list[str]]:
    by_cell: dict[str, dict[str, CellOutcome]] = defaultdict(dict)
    for cell in cells:
        known = by_cell[cell.id].get(cell.merged_part or "")
        found = CellOutcome.from_cell(cell)
        if known is None or found.badness > known.badness:
            by_cell[cell.id][cell.merged_part or ""] = found
    several = {name: found for name, found in by_cell.items() if len(found) > 1}
    lines = [
        f"{name}: " + ", ".join(f"{outcome.label} in {part}" for part, outcome in found.items())
        for name, found in sorted(several.items())
        if len(set(found.values())) > 1
    ]
    return len(several), [text.line(line, 500) for line in lines]


def _info(
    runs: Sequence[Run], parts: list[MergedPart], cells: list[Cell], conflicts: list[str]
) -> RunInfo:
    backends = _backends(parts)
    problems = [f"conflict: {line}" for line in conflicts]
    problems += _differences(parts)
    for run in runs:
        # The problems of a merged run name their part already.
        mark = "" if run.info.merged_from else f"{text.line(run.path.resolve().name, 80)}: "
        lines = [line for line in run.info.problems if not _is_settled(line, backends)]
        problems += [f"{mark}{line}" for line in [*lines, *run.incompleteness]]
    red = any(cell.status.is_red for cell in cells)
    ended = [part.ended for part in parts]
    speeds = {run.info.speed for run in runs}
    return RunInfo(
        started=min((part.started for part in parts if part.started), default=""),
        ended=max(end for end in ended if end) if all(ended) else None,
        complete=all(run.is_complete for run in runs),
        exit_status=_exit_status(runs, red=red or bool(problems)),
        seed=parts[0].seed,
        command=[],
        targets=list(dict.fromkeys(target for run in runs for target in run.info.targets)),
        selection=" | ".join(dict.fromkeys(part.selection for part in parts if part.selection)),
        expected=list(dict.fromkeys(name for run in runs for name in run.info.expected)),
        backends=backends,
        problems=problems,
        environment=_merge_environments(parts),
        merged_from=parts,
        lower_only=all(run.info.lower_only for run in runs),
        speed=speeds.pop() if len(speeds) == 1 else None,
        slow_parts={part: why for run in runs for part, why in run.info.slow_parts.items()},
        missing_names={name: what for run in runs for name, what in run.info.missing_names.items()},
        hosts={name: host for run in runs for name, host in run.info.hosts.items()},
    )


def _differences(parts: list[MergedPart]) -> list[str]:
    """Differences of seed or commit between the parts."""
    seeds = sorted({part.seed for part in parts})
    commits = sorted({part.environment.git_commit or "unknown" for part in parts})
    lines = []
    if len(seeds) > 1:
        lines.append(f"the parts have different seeds: {', '.join(map(str, seeds))}")
    if len(commits) > 1:
        lines.append(f"the parts are of different commits: {', '.join(map(_short, commits))}")
    return lines


def _short(commit: str) -> str:
    return text.line(commit, 200)[:12]


def _backends(parts: list[MergedPart]) -> dict[str, BackendState]:
    """The state of each backend: available if any part has it; reasons name their part."""
    made: dict[str, BackendState] = {}
    for name in sorted({name for part in parts for name in part.backends}):
        states = [(part.name, part.backends[name]) for part in parts if name in part.backends]
        here = [state for _, state in states if state.available]
        runtimes = sorted({state.runtime for state in here})
        away = [f"{part}: {state.reason}" for part, state in states if not state.available]
        made[name] = BackendState(
            available=bool(here),
            reason="" if here else "; ".join(away),
            runtime=", ".join(runtimes) or "none",
        )
    return made


def _is_settled(problem: str, backends: dict[str, BackendState]) -> bool:
    # A backend that was missing in one part is not missing when another part has it.
    return any(
        state.available and f"backend {name} was expected" in problem
        for name, state in backends.items()
    )


def _exit_status(runs: Sequence[Run], *, red: bool) -> int | None:
    statuses = [run.info.exit_status for run in runs]
    if any(status is None for status in statuses):
        return None
    # Keep the exit status of a part if no record explains it.
    unexplained = [
        status
        for run, status in zip(runs, statuses, strict=True)
        if status
        and (status > 1 or not (run.info.problems or any(c.status.is_red for c in run.cells)))
    ]
    return max([*unexplained, int(red)], default=0)


def _merge_environments(parts: list[MergedPart]) -> Environment:
    """The environment facts that all parts have in common."""
    places = [part.environment for part in parts]
    first = places[0]
    common = {
        name: version
        for name, version in first.packages.items()
        if all(place.packages.get(name) == version for place in places)
    }
    made = Environment(packages=common)
    for name in Environment.__struct_fields__:
        if name != "packages" and all(
            getattr(place, name) == getattr(first, name) for place in places
        ):
            setattr(made, name, getattr(first, name))
    return made


def _remarks(parts: list[MergedPart], superseded: dict[str, list[str]]) -> list[str]:
    lines = [
        f"{part}: {text.count(len(cells), 'record')} left out because another part executed them: "
        f"{cells[0]}{' …' if len(cells) > 1 else ''}"
        for part, cells in superseded.items()
    ]
    for name in sorted({name for part in parts for name in part.environment.packages}):
        versions = {part.environment.packages.get(name, "not there") for part in parts}
        if len(versions) > 1:
            lines.append(f"{name} differs between the parts: {', '.join(sorted(versions))}")
    return [text.line(line, 500) for line in lines]


def _write(
    out: Path,
    info: RunInfo,
    cells: list[Cell],
    folders: Mapping[str, Path],
    runs: Iterable[Path],
) -> None:
    # Written to a draft folder and renamed, so that a kill leaves no partial merge.
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        writer = RunWriter(draft, info)
        for cell in cells:
            writer.append(cell)
            if cell.saved_to:
                shutil.copytree(folders[cell.saved_to], draft / cell.saved_to)
        for run in runs:
            for claims in read_claims(run).values():
                write_claims(draft, claims)
        writer.close(exit_status=info.exit_status, ended=info.ended, complete=info.complete)
        draft.replace(out)
    except OSError as error:
        raise RunUnwritable(f"cannot write {out}: {error.strerror}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
