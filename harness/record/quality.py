"""How far a quantized graph is from its float model, and when it is too far. Imports no torch.

docs/quantization.md derives the expectation.
"""

from __future__ import annotations

import msgspec

DEGRADED_BELOW_DB = 6.0
"""A quantized graph is degraded if its SQNR is lower than expected by more than this: its error is
more than twice the expected one."""


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """The SQNR of a quantized graph against its float model, over all calls.

    ``sqnr_db`` is that of the output with the lowest one, whose number is ``output``. The
    ``expected_db`` is that of as many ``roundings`` of tensors that make good use of their codes.
    """

    sqnr_db: float
    expected_db: float
    output: int
    roundings: int

    @property
    def is_degraded(self) -> bool:
        """Whether the graph is farther from its model than its number of roundings explains."""
        return self.sqnr_db < self.expected_db - DEGRADED_BELOW_DB
