"""What a pass proves: whether it is conclusive or vacuous, and whether its graph is degraded.

docs/numerics.md and docs/quantization.md derive the thresholds. Imports no torch.
"""

from __future__ import annotations

import enum
import math

import msgspec

CONFIDENCE = 0.95
FAULT = 0.05
"""A conclusive pass excludes, with this confidence, a fault in this share of the elements."""

ENOUGH = math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - FAULT))
"""Number of conclusive elements that reveals such a fault: 59 (S. S. Wilks, *Determination of
Sample Sizes for Setting Tolerance Limits*, Ann. Math. Statist. 12(1), 1941)."""

_ROUNDED = 1e-9  # tolerance: a share is a quotient


def is_conclusive(share: float, elements: int) -> bool:
    """Whether a conforming output is evidence: :data:`ENOUGH` of its elements are conclusive or, in
    a smaller output, the share :data:`FAULT` of them.

    Args:
        share: share of the elements that the best constant gets wrong.
        elements: number of elements.
    """
    return share > 0 and (share >= FAULT - _ROUNDED or share * elements >= ENOUGH - _ROUNDED)


class VacuousCause(enum.Enum):
    """Why a constant would pass in place of an output. The value is its text in records."""

    EMPTY = "no elements"
    INFINITE = "infinite bounds"  # the perturbed runs give no finite bound
    EQUAL = "equal values"
    WIDE = "bounds wider than values"
    SPREAD = "bounds as wide as the spread of the values"


class Vacuity(msgspec.Struct, frozen=True, kw_only=True):
    """Why a conforming output is no evidence.

    ``constant`` is the constant that passes at the most elements, None where there is no such
    comparison; ``passing_elements`` is the number of these elements.
    """

    cause: VacuousCause
    passing_elements: int
    constant: float | None = None


DEGRADED_BELOW_DB = 6.0
"""A quantized graph is degraded if its SQNR is lower than expected by more than this: its error is
more than twice the expected one."""

LEAST_SQNR_DB = 6.0
"""Below this SQNR, a quantized graph is degraded whatever is expected: its error is more than half
of its output, in the root mean square."""


class MetricValue(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of a cell: the figure of the float ``model``, of the ``quantized`` graph (None where
    there is none) and the ``value`` on the target, with the limits of
    :class:`harness.model.metric.Metric`."""

    name: str
    model: float
    value: float
    quantized: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    degraded_below: float | None = None
    degraded_above: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the target is within ``at_least`` and ``at_most``. NaN is within no limit."""
        return self._is_within(self.at_least, self.at_most)

    @property
    def is_degraded(self) -> bool:
        """Whether the target is beyond ``degraded_below`` or ``degraded_above``, as NaN is."""
        return not self._is_within(self.degraded_below, self.degraded_above)

    def _is_within(self, least: float | None, most: float | None) -> bool:
        return (least is None or self.value >= least) and (most is None or self.value <= most)

    def __str__(self) -> str:
        graph = "" if self.quantized is None else f", {self.quantized:.4g} in the quantized graph"
        limits = [f"at least {self.at_least:g}"] if self.at_least is not None else []
        limits += [f"at most {self.at_most:g}"] if self.at_most is not None else []
        limit = f"; {' and '.join(limits)} is required" if limits else ""
        if not self._is_within(self.degraded_below, None):
            limit += f"; degraded below {self.degraded_below:g}"
        if not self._is_within(None, self.degraded_above):
            limit += f"; degraded above {self.degraded_above:g}"
        return f"{self.name} is {self.value:.4g} ({self.model:.4g} in the model{graph}){limit}"


class QualityPart(msgspec.Struct, frozen=True, kw_only=True):
    """One rounded tensor, and its share in the error of a quantized graph.

    ``node`` computes the tensor, at the line ``source`` of the model in the module ``module``.
    ``alone_db`` is the SQNR of the graph in which this tensor alone is rounded, ``without_db`` that
    of the graph in which all others are; None where it was not measured. ``clipped`` is the share
    of its values that its codes cannot represent, ``codes`` the number of codes between the
    ends of its values, of ``available`` ones. ``least`` and ``most`` are the ends of its values.
    """

    node: str
    alone_db: float
    without_db: float | None = None
    source: str = ""
    module: str = ""
    clipped: float = 0.0
    codes: int = 0
    available: int = 0
    least: float = 0.0
    most: float = 0.0


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """The SQNR of a quantized graph against its float model, over all calls.

    ``sqnr_db`` is that of the output with the lowest one, whose number is ``output``. The
    ``expected_db`` is that of as many ``roundings`` of tensors that make good use of their codes.
    ``clipped`` has the share of values that are beyond the codes of a tensor, by its node, most
    first; only where the quantizer was calibrated with other inputs. ``parts`` are the roundings
    with the largest errors, where they were measured. ``keep_float`` are modules that, left in
    float, bring the SQNR to ``reached_db``, where ``--reach-sqnr`` asked for ``wanted_db``.
    """

    sqnr_db: float
    expected_db: float
    output: int
    roundings: int
    clipped: dict[str, float] = {}
    parts: list[QualityPart] = []
    keep_float: list[str] = []
    reached_db: float | None = None
    wanted_db: float | None = None

    @property
    def is_degraded(self) -> bool:
        """Whether the graph is farther from its model than its number of roundings explains, or
        so far that its error is more than half of its output."""
        return self.sqnr_db < max(self.expected_db - DEGRADED_BELOW_DB, LEAST_SQNR_DB)
