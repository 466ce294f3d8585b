"""Compares cells without a pass with cells with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from harness.record.cell import Cell, Status

_MAX_CHARACTERS = 300  # of the problem of one graph


@dataclass(frozen=True)
class PassComparison:
    """A graph on a target, without a pass and with it.

    Attributes:
        graph: name of the case.
        without: cell without the pass.
        cell: cell with the pass.
    """

    graph: str
    without: Cell
    cell: Cell

    @property
    def is_judged(self) -> bool:
        """Whether the properties that the pass must keep were checked."""
        return bool(self.cell.properties)

    @property
    def is_worse(self) -> bool:
        """Whether the pass is at fault: it breaks a property, or the cell passes without it."""
        return self.cell.status.is_red and (
            self.without.status is Status.PASSED or bool(self._broken)
        )

    @property
    def problem(self) -> str:
        """Broken properties, or the error; empty if there is neither."""
        text = "; ".join(self._broken) or (self.cell.error or "").partition("\n")[0]
        return text[:_MAX_CHARACTERS]

    @property
    def _broken(self) -> list[str]:
        return [f"{one.name}: {one.detail}" for one in self.cell.properties if one.holds is False]


def print_comparisons(console: Console, title: str, rows: Sequence[PassComparison]) -> None:
    """Print a table of graphs on one target, "without → with" where they differ, then problems."""
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD,
                  pad_edge=False)  # fmt: skip
    table.add_column("graph", no_wrap=True)
    table.add_column("outcome", overflow="fold")
    for column in ("delegates", "fallback", "bytes"):
        table.add_column(column, overflow="fold", justify="right")
    table.add_column("operators", overflow="fold")
    for one in rows:
        without, cell = one.without, one.cell
        table.add_row(
            one.graph.removeprefix("graph/"),
            _format_change(without.status.value, cell.status.value),
            _format_change(without.delegation.delegates, cell.delegation.delegates),
            _format_change(without.delegation.undelegated_nodes, cell.delegation.undelegated_nodes),
            _format_change(without.program_bytes, cell.program_bytes),
            ", ".join(
                f"{op.removesuffix('.default')} {_format_change(*counts)}"
                for op, counts in cell.changed_ops.items()
            ),
        )
    console.print(table)
    for one in rows:
        if one.problem:
            console.print(f"{one.graph}: {one.problem}", style="red" if one.is_worse else "")
    console.print()


def _format_change(before: object, after: object) -> str:
    return str(before) if before == after else f"{before} → {after}"
