"""Contract tests for the authors of a backend: programs that test harnesses often judge wrongly.

::

    from harness.contract import check_backend

    def test_contract() -> None:
        check_backend(MyBackend())
"""

from __future__ import annotations

from harness.contract.check_backend import SPECIMENS as SPECIMENS, check_backend as check_backend
from harness.contract.specimens import (
    Expected as Expected,
    Specimen as Specimen,
    SpecimenKind as SpecimenKind,
)
