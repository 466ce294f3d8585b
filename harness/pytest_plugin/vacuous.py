"""The ini option ``conform_vacuous``: vacuous passes of cases without a reason."""

from __future__ import annotations

import pytest

from harness.record.cell import Cell, Status

# Maximum of cells that the problem names.
_MAX_NAMED = 5


def get_vacuous_policy(config: pytest.Config) -> str:
    """Return the value of ``conform_vacuous``: ``warn`` or ``error``."""
    return str(config.getini("conform_untelling") or config.getini("conform_vacuous"))


class VacuousPasses:
    """Collects the vacuous passes of a session."""

    def __init__(self, config: pytest.Config) -> None:
        self._is_error = get_vacuous_policy(config) == "error"
        self._cells: list[str] = []

    def add(self, cell: Cell) -> None:
        """Collect the cell if it passed vacuously without a reason."""
        if cell.status is Status.PASSED and not cell.is_conclusive and not cell.vacuous_reason:
            self._cells.append(cell.id)

    def problems(self) -> list[str]:
        """Return the error for the collected cells if ``conform_vacuous`` is ``error``."""
        if not self._cells or not self._is_error:
            return []
        named = ", ".join(self._cells[:_MAX_NAMED])
        more = f" and {len(self._cells) - _MAX_NAMED} more" if self._cells[_MAX_NAMED:] else ""
        return [
            f"{len(self._cells)} cells passed vacuously: any constant output would pass. Give "
            f"the cases better inputs, or a reason with Case(vacuous=...): {named}{more}"
        ]
