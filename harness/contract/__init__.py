"""What a backend's author runs: programs that harnesses judge wrongly, on a backend of one's own.

::

    from harness.contract import check_backend

    def test_contract() -> None:
        check_backend(MyBackend())
"""

from __future__ import annotations

from harness.contract.check_backend import SPECIMENS as SPECIMENS, check_backend as check_backend
from harness.contract.specimens import (
    Expected as Expected,
    Kind as Kind,
    Specimen as Specimen,
)
