"""What upstream is asked for, for the tests of what it is asked once."""

from __future__ import annotations

from typing import Any

import pytest
from torch.export import ExportedProgram

from harness.pipeline.speed.export import decompositions as decomposing


@pytest.fixture
def decompositions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tables that upstream is asked to decompose with."""
    asked: list[Any] = []
    upstream = decomposing._upstream

    def noted(program: ExportedProgram, table: Any = None, **options: Any) -> ExportedProgram:
        asked.append(table)
        return upstream(program, table, **options)

    monkeypatch.setattr(decomposing, "_upstream", noted)
    return asked
