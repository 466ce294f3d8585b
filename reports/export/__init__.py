"""A run in formats that other tools read: Parquet, CSV and JSON tables, JUnit XML.

Each writer returns bytes; :func:`write` puts them into a file, whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import ConflictingOptions, RunUnwritable, UsageError
from harness.record.run import Run
from reports import output

FORMATS = ("parquet", "csv", "json", "junit")
#: The table of :data:`reports.tables.TABLES` that is written when none is named.
CELLS = "cells"
_SEVERAL = "environment"


def render(runs: Sequence[Run], style: str, table: str | None = None) -> bytes:
    """A run in a format.

    Args:
        runs: one run; several for the table ``environment``, a column each.
        style: one of :data:`FORMATS`.
        table: a name in :data:`reports.tables.TABLES`; ``cells`` by default. JUnit has none: it
            is always of all cells.

    Raises:
        UsageError: no such format or table, or several runs for a table of one.
        ConflictingOptions: a table was named for JUnit.
    """
    from reports import tables

    if style not in FORMATS:
        raise UsageError(f"no export format {style!r}; there are {', '.join(FORMATS)}")
    name = table or CELLS
    if name not in tables.TABLES:
        raise UsageError(f"no table {name!r}; there are {', '.join(tables.TABLES)}")
    if not runs or (len(runs) > 1 and (name != _SEVERAL or style == "junit")):
        raise UsageError(f"{len(runs)} runs for {name} as {style}: name one "
                         f"(several only for the table {_SEVERAL})")  # fmt: skip
    if style == "junit":
        if table is not None:
            raise ConflictingOptions(f"junit is of all cells; leave out the table {table!r}")
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
    """Write an export whole or not at all.

    Raises:
        RunUnwritable: the file is there and ``force`` is not given, or the disk refuses.
    """
    if path.is_dir():
        raise RunUnwritable(f"cannot write {path}: it is a folder; name a file in it")
    if path.exists() and not force:
        raise RunUnwritable(f"{path} is there; overwrite it with --force, or name another file")
    output.write(path, content)
