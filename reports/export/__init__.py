"""Export a run to formats of other tools: Parquet, CSV and JSON tables, JUnit XML.

Each writer returns bytes; :func:`write` writes them to a file atomically.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import ConflictingOptions, RunUnwritable, UsageError
from harness.record.run import Run
from reports import output

FORMATS = ("parquet", "csv", "json", "junit")
#: The default table of :data:`reports.tables.TABLES`.
CELLS = "cells"
_SEVERAL = "environment"


def render(runs: Sequence[Run], style: str, table: str | None = None) -> bytes:
    """Render a run in an export format.

    Args:
        runs: one run; for the table ``environment`` also several, a column each.
        style: one of :data:`FORMATS`.
        table: a name in :data:`reports.tables.TABLES`; ``cells`` by default. JUnit has no
            table: it always has all cells.

    Raises:
        UsageError: unknown format or table, or several runs for a table that has one.
        ConflictingOptions: a table is named for JUnit.
    """
    from reports import tables

    if style not in FORMATS:
        raise UsageError(f"unknown export format {style!r}; choose from {', '.join(FORMATS)}")
    name = table or CELLS
    if name not in tables.TABLES:
        raise UsageError(f"unknown table {name!r}; choose from {', '.join(tables.TABLES)}")
    if not runs or (len(runs) > 1 and (name != _SEVERAL or style == "junit")):
        raise UsageError(f"{len(runs)} runs for {name} as {style}: name one run "
                         f"(only the table {_SEVERAL} accepts several)")  # fmt: skip
    if style == "junit":
        if table is not None:
            raise ConflictingOptions(f"junit always has all cells; remove --table {table}")
        from reports.export import junit

        return junit.render(runs[0])
    from reports.export import flat

    frame = tables.environments(runs) if name == _SEVERAL else tables.TABLES[name](runs[0])
    columns = flat.columns(frame)
    if style == "parquet":
        return flat.parquet(columns)
    if style == "csv":
        return flat.csv(columns)
    return flat.json(columns, name, [run.path.resolve().name for run in runs])


def write(path: Path, content: bytes, *, force: bool = False) -> None:
    """Write an export to a file atomically.

    Raises:
        RunUnwritable: the file exists and ``force`` is False, or it cannot be written.
    """
    if path.is_dir():
        raise RunUnwritable(f"cannot write {path}: it is a folder; name a file in it")
    if path.exists() and not force:
        raise RunUnwritable(f"{path} exists; overwrite it with --force, or name another file")
    output.write(path, content)
