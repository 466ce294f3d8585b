"""Cells without a pass and with it, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from harness.record.cell import Cell, Status

_LONGEST = 300  # characters of what is wrong with one graph


@dataclass(frozen=True)
class Compared:
    """A graph on a target, without a pass and with it."""

    graph: str
    without: Cell
    cell: Cell

    @property
    def is_judged(self) -> bool:
        """Whether what the pass must keep was looked at."""
        return bool(self.cell.properties)

    @property
    def is_worse(self) -> bool:
        """Whether the pass is to blame: it does not keep something, or is right left out alone."""
        return self.cell.status.is_red and (
            self.without.status is Status.PASSED or bool(self._not_kept)
        )

    @property
    def problem(self) -> str:
        """What is not kept, or wrong, in short; empty where nothing is."""
        said = "; ".join(self._not_kept) or (self.cell.error or "").partition("\n")[0]
        return said[:_LONGEST]

    @property
    def _not_kept(self) -> list[str]:
        return [f"{one.name}: {one.detail}" for one in self.cell.properties if one.kept is False]


def print_compared(console: Console, title: str, rows: Sequence[Compared]) -> None:
    """A table of graphs on one target, in which an arrow leads from without to with; below it what
    is wrong."""
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD,
                  pad_edge=False)  # fmt: skip
    table.add_column("graph", no_wrap=True)
    table.add_column("outcome", overflow="fold")
    for column in ("delegates", "left", "bytes"):
        table.add_column(column, overflow="fold", justify="right")
    table.add_column("operators", overflow="fold")
    for one in rows:
        without, cell = one.without, one.cell
        table.add_row(
            one.graph.removeprefix("graph/"),
            _both(without.status.value, cell.status.value),
            _both(without.delegation.delegates, cell.delegation.delegates),
            _both(without.delegation.undelegated_nodes, cell.delegation.undelegated_nodes),
            _both(without.program_bytes, cell.program_bytes),
            ", ".join(
                f"{op.removesuffix('.default')} {_both(*counts)}"
                for op, counts in cell.changed_ops.items()
            ),
        )
    console.print(table)
    for one in rows:
        if one.problem:
            console.print(f"{one.graph}: {one.problem}", style="red" if one.is_worse else "")
    console.print()


def _both(before: object, after: object) -> str:
    return str(before) if before == after else f"{before} → {after}"
