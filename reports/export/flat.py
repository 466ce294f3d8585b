"""Export tables to Parquet, CSV and JSON, all from one Arrow table, so that they agree.

A missing value is null, not NaN: the SQNR of a cell without outputs is null, the SQNR of an output
with NaN in it is NaN.
"""

from __future__ import annotations

import csv as csv_module
import io
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from harness.record.number_text import spell_number
from reports.tables import Frame
from reports.text import clean

#: Characters at which a spreadsheet starts a formula, or that it skips before one.
FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_OF_OUTPUTS = ("max_abs", "sqnr_db", "bound_used")


def columns(frame: Frame) -> pa.Table:
    """Convert a table of :mod:`reports.tables` to Arrow, with its index as columns."""
    made = pa.Table.from_pandas(frame, preserve_index=True)
    # pandas has no null beside NaN for floats, and pyarrow would make all NaN null.
    for place, name in enumerate(made.column_names):
        if name not in frame.columns or not pa.types.is_floating(made.schema.field(name).type):
            continue
        values = frame[name].to_numpy()
        absent = None
        if name.startswith(("seconds_", "memory_")):
            absent = frame[name].isna().to_numpy()  # a stage that the cell did not reach
        elif name in ("conclusive_share", "memory"):
            absent = frame[name].isna().to_numpy()  # not measured
        elif name in _OF_OUTPUTS and "outputs" in frame.columns:
            absent = (frame["outputs"] == 0).to_numpy()
        array = pa.array(values, pa.float64(), mask=absent, from_pandas=False)
        made = made.set_column(place, name, array)
    # pandas puts the index last; names belong first.
    names = [name for name in made.column_names if name not in frame.columns]
    return made.select([*names, *(name for name in made.column_names if name in frame.columns)])


def parquet(table: pa.Table) -> bytes:
    """Render Parquet with the types of the table; pandas restores the index."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def csv(table: pa.Table) -> bytes:
    """Render CSV (RFC 4180, UTF-8) whose texts no spreadsheet executes as formulas.

    A text that begins like a formula, or with an apostrophe, gets an apostrophe in front:
    spreadsheets then show it as text. Remove one leading apostrophe to restore the text.
    Texts are always quoted, numbers never. Null is empty; other values are ``nan``, ``inf`` and
    ``-inf``. Control characters are replaced.
    """
    out = io.StringIO()
    writer = csv_module.writer(out, quoting=csv_module.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writerow([as_text(name) for name in table.column_names])
    spelled = [_spell_column(table[place]) for place in range(table.num_columns)]
    writer.writerows(zip(*spelled, strict=True))
    return out.getvalue().encode("utf-8", "replace")


def as_text(value: str) -> str:
    """Escape a text for CSV."""
    shown = clean(value)
    return f"'{shown}" if value.startswith(("'", *FORMULA)) else shown


def _spell_column(column: pa.ChunkedArray) -> list[Any]:
    values = column.to_pylist()
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return list(values)
    if pa.types.is_boolean(kind):
        return ["" if value is None else str(value).lower() for value in values]
    return ["" if value is None else as_text(str(value)) for value in values]


def json(table: pa.Table, name: str, runs: list[str]) -> bytes:
    """Render strict JSON: the table's name, the runs, the columns with types, and a list per row.

    JSON has no infinities or NaN, so they are written as ``"inf"``, ``"-inf"`` and ``"nan"``, as
    in ``cells.jsonl``.
    """
    body = [[spell_number(value) for value in table[place].to_pylist()]
            for place in range(table.num_columns)]  # fmt: skip
    record = {
        "table": name,
        "runs": [clean(run) for run in runs],
        "columns": [{"name": field.name, "type": str(field.type)} for field in table.schema],
        "rows": [list(row) for row in zip(*body, strict=True)],
    }
    return msgspec.json.encode(record) + b"\n"
