"""Environments of runs, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from harness.record.host import Environment
from harness.record.run import BackendState, Run
from reports import facts
from reports.tables.lazy import Frame, pandas


def environments(runs: Sequence[Run]) -> Frame:
    """A row per fact of the environments, a column per run, all text.

    A merged run has a column for each part. ``differs`` says whether the columns differ. A
    missing fact is empty. Packages are ``package NAME``, backends
    ``backend NAME``.

    Raises:
        ValueError: ``runs`` is empty.
    """
    if not runs:
        raise ValueError("environments needs at least one run")
    columns: dict[str, dict[str, str]] = {}
    for run in runs:
        name = facts.title(run)
        info = run.info
        for part in info.merged_from:
            title = _find_free_name(f"{name} ({part.name})", columns)
            columns[title] = _facts(part.environment, part.seed, part.started, part.backends)
        if not info.merged_from:
            title = _find_free_name(name, columns)
            columns[title] = _facts(info.environment, info.seed, info.started, info.backends)
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = [[column.get(name, "") for column in columns.values()] for name in names]
    index = pandas().Index(names, name="fact", dtype="str")
    table = pandas().DataFrame(rows, index=index, columns=list(columns), dtype="str")
    table.insert(0, "differs", [len(set(row)) > 1 for row in rows], allow_duplicates=True)
    return table


def _find_free_name(name: str, columns: dict[str, dict[str, str]]) -> str:
    # Two folders may have the same name, and a run may be called "differs".
    made, number = name, 2
    while made in columns or made == "differs":
        made, number = f"{name} #{number}", number + 1
    return made


def _facts(
    env: Environment, seed: int, started: str, backends: dict[str, BackendState]
) -> dict[str, str]:
    changes = {None: "", True: env.git_digest or "yes", False: "no"}[env.git_dirty]
    return {
        "started": started,
        "seed": str(seed),
        "commit": env.git_commit or "",
        "local changes": changes,
        "python": env.python,
        "platform": env.platform,
        "machine": env.machine,
        "processor": env.processor,
        "vectors": env.vectors,
        "cores": str(env.cores) if env.cores else "",
        "host": env.host,
        **{f"package {name}": version for name, version in sorted(env.packages.items())},
        **{
            f"backend {name}": f"{state.runtime} runtime"
            if state.available
            else f"unavailable: {state.reason or 'no reason recorded'}"
            for name, state in sorted(backends.items())
        },
    }
