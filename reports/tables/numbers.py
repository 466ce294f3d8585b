"""Errors of outputs against the oracle: quantiles and histograms by target."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from harness.record.cell import Numerics
from harness.record.run import Run
from reports.summary import RunSummary
from reports.tables.lazy import Frame, pandas

_SHARES = [0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0]
_METRICS = {
    "bound_used": [0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, math.inf],
    "sqnr_db": [-math.inf, 0.0, *(float(edge) for edge in range(20, 180, 20)), math.inf],
}


def numerics(run: Run) -> Frame:
    """Quantiles over all outputs of a target, a row per target and metric.

    ``bound_used`` is error / bound, at most 1 where an output conforms; ``sqnr_db`` is in dB and
    infinite where an output is exact. ``outputs`` counts all outputs, ``nan`` outputs with
    NaN as metric, which no quantile includes, and ``infinite`` outputs whose metric is infinite. A
    quantile is an observed value: of two neighbours the worse. Columns: ``min``, ``p01`` …
    ``p99``, ``max``.
    """
    names = ["min", *(f"p{round(100 * share):02d}" for share in _SHARES[1:-1]), "max"]
    records = []
    for target, outputs in _outputs(run).items():
        for metric in _METRICS:
            values, undefined = _values(outputs, metric)
            quantiles = [_quantile(values, share, metric == "bound_used") for share in _SHARES]
            records.append({
                "target": target,
                "metric": metric,
                "outputs": len(outputs),
                "nan": undefined,
                "infinite": sum(map(math.isinf, values)),
                **dict(zip(names, quantiles, strict=True)),
            })  # fmt: skip
    columns = ["target", "metric", "outputs", "nan", "infinite", *names]
    return pandas().DataFrame(records, columns=columns).set_index(["target", "metric"])


def histogram(run: Run, metric: str = "bound_used", edges: Sequence[float] | None = None) -> Frame:
    """Count the outputs of each target in each range of a metric.

    A range holds ``low`` < value ≤ ``high`` for ``bound_used`` (an unused bound, 0, is in the
    first) and ``low`` ≤ value < ``high`` for ``sqnr_db`` (an exact output is in the last, whose
    ``exact`` counts it). A row without ``low`` and ``high`` counts NaN, for targets with
    such outputs. Values outside the edges are not counted.

    Raises:
        ValueError: the metric is unknown, or the edges do not increase.
    """
    if metric not in _METRICS:
        raise ValueError(f"unknown metric {metric!r}; choose from {', '.join(_METRICS)}")
    borders = list(_METRICS[metric] if edges is None else edges)
    if len(borders) < 2 or any(not low < high for low, high in itertools.pairwise(borders)):
        raise ValueError("a histogram needs two or more edges in increasing order")
    records = []
    for target, outputs in _outputs(run).items():
        values, undefined = _values(outputs, metric)
        ranges = list(itertools.pairwise(borders))
        for number, (low, high) in enumerate(ranges):
            if metric == "bound_used":
                inside = [low < value <= high or (not number and value == low) for value in values]
            else:
                last = number == len(ranges) - 1
                inside = [low <= value < high or (last and value == high) for value in values]
            exact = sum(
                there and value == math.inf for there, value in zip(inside, values, strict=True)
            )
            records.append((target, low, high, sum(inside), exact if metric == "sqnr_db" else 0))
        if undefined:
            records.append((target, math.nan, math.nan, undefined, 0))
    return pandas().DataFrame(records, columns=["target", "low", "high", "outputs", "exact"])


def _outputs(run: Run) -> dict[str, list[Numerics]]:
    found = RunSummary.from_run(run)
    outputs: dict[str, list[Numerics]] = {}
    for row in found.rows:
        if row.cell is not None and row.cell.numerics:
            outputs.setdefault(row.target, []).extend(row.cell.numerics)
    return {name: outputs[name] for name in found.targets if name in outputs}


def _values(outputs: list[Numerics], metric: str) -> tuple[list[float], int]:
    values = [float(getattr(item, metric)) for item in outputs]
    known = sorted(value for value in values if not math.isnan(value))
    return known, len(values) - len(known)


def _quantile(values: list[float], share: float, up: bool) -> float:
    # Not interpolated, since a neighbour may be infinite.
    if not values:
        return math.nan
    place = share * (len(values) - 1)
    return values[math.ceil(place - 1e-9) if up else math.floor(place + 1e-9)]
