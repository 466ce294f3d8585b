"""The smallest errors that turn a cell red: a file of a run, a table, a page of the dashboard.

``python -m benchmarks.verdicts.sensitivity --run FOLDER`` writes the file.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from harness.errors import ConformError
from harness.record.folder import write_atomically
from reports import jinja

FILE = "sensitivity.json"

KINDS = {
    "scale of the weights": "all weights of a layer, relative",
    "one weight": "its largest weight, relative",
    "bias": "all of it, by this share of its largest element",
    "scale of the input": "the layer's input, relative",
    "zero point": "the layer's input, in steps of its codes",
}
"""Kinds of error, and what the size of each is relative to."""


class SmallestError(msgspec.Struct, frozen=True):
    """The smallest error in one layer of a module that turns a cell red.

    Attributes:
        case: name of the case.
        target: the target.
        layer: ``first``, ``middle`` or ``last``.
        kind: a key of :data:`KINDS`.
        size: the error; None where no error up to twice the value (8 steps) is red.
    """

    case: str
    target: str
    layer: str
    kind: str
    size: float | None


def write(folder: Path, found: Sequence[SmallestError]) -> None:
    """Write the file of a run.

    Raises:
        OSError: the folder or the disk refuses.
    """
    write_atomically(folder / FILE, msgspec.json.encode(found))


def read(folder: Path) -> list[SmallestError]:
    """Read the file of a run; empty if it has none.

    Raises:
        ConformError: it is damaged.
    """
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[SmallestError])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        raise ConformError(f"{path}: {error}") from error


def build_rows(found: Sequence[SmallestError]) -> dict[str, list[tuple[str, str] | None]]:
    """The median and the worst of each kind of error, by target; None where none was measured."""
    return {
        target: [
            _summarize([each for each in found if (each.target, each.kind) == (target, kind)])
            for kind in KINDS
        ]
        for target in dict.fromkeys(each.target for each in found)
    }


def _summarize(found: Sequence[SmallestError]) -> tuple[str, str] | None:
    sizes = [math.inf if each.size is None else each.size for each in found]
    return (_describe(statistics.median_high(sizes)), _describe(max(sizes))) if sizes else None


def _describe(size: float) -> str:
    """The size of an error in two digits; ``none`` if it is infinite."""
    if math.isinf(size):
        return "none"
    return f"{size:.0f}" if size >= 1 else f"{size:.2g}"


def format_table(rows: Mapping[str, Sequence[tuple[str, str] | None]]) -> str:
    """Format a Markdown table of :func:`build_rows`."""
    lines = [f"| target | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    for target, pairs in rows.items():
        cells = ["–" if pair is None else ", ".join(pair) for pair in pairs]
        lines.append(f"| `{target}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def render(found: Sequence[SmallestError], *, title: str, back: str = "") -> str:
    """Render the page.

    Args:
        found: the errors of a run.
        title: name of the run.
        back: address of the page to go back to; empty for none.
    """
    return jinja.render(
        "sensitivity.html.j2",
        ["base.css", "releases.css", "coverage.css"],
        title=title,
        back=back,
        kinds=KINDS,
        rows=build_rows(found),
        cases=list(dict.fromkeys(each.case for each in found)),
    )
