"""How :func:`harness.run_cell` runs a cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.pipeline.quantization.quality import QualityOptions
from harness.pipeline.saving.cell_folder import CellFolder
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.pipeline.tester import Tester
from harness.record.cell import Cell
from harness.workers.memory import MemoryMeter


@dataclass(frozen=True, kw_only=True)
class CellOptions:
    """Options of :func:`harness.run_cell`.

    Attributes:
        require_delegation: fail when nothing was delegated, even if the recipe allows it.
        compare_runtimes: run natively and emulated where the backend can do both, and require the
            same verdict from both.
        lower_only: stop at the serialized program; a cell that gets there ends as ``lowered``.
        continue_past_defects: where the backend finds a defect that its emulation can continue
            past, list all defects and judge the rest. The cell is red either way. Cases tagged
            ``published`` stop at their first defect: executing and judging them takes minutes.
        quality: what to measure of a quantized graph.
        save: file to write the serialized program to.
        cell_folder: folder to write the program, inputs, outputs and expected outputs to, as far
            as the cell gets.
        meter: measures memory and reports each stage as it begins; by default a new one.
        shared_work: results that the cells of one case share; by default nothing is shared.
        on_lowered: called with the record so far once the program is serialized. It is the only
            record of the cell if execution ends the process.
        on_compared: called with the tester once the outputs were compared.
        on_failure: called with the tester when a stage fails.
    """

    require_delegation: bool = False
    compare_runtimes: bool = False
    lower_only: bool = False
    continue_past_defects: bool = True
    quality: QualityOptions = QualityOptions()  # noqa: RUF009  # frozen
    save: Path | None = None
    cell_folder: CellFolder | None = None
    meter: MemoryMeter | None = None
    shared_work: SharedCaseWork | None = None
    on_lowered: Callable[[Cell], None] | None = None
    on_compared: Callable[[Tester], None] | None = None
    on_failure: Callable[[Tester], None] | None = None
