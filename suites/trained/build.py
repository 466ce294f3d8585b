"""Make a case of a trained network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torch import nn

from harness import Case, Inputs, Metric

EVERY = "portable:*|xnnpack:*|tosa:*|mlx:*|metal:*"
"""All recipes of all backends, also those that no other suite selects."""

Calls = Callable[[], Sequence[Inputs]]


def trained(
    name: str,
    module: Callable[[], nn.Module],
    judged: Calls,
    calibration: Calls,
    metrics: Iterable[Metric],
    *requires: tuple[str, ...],
) -> Case:
    """Make a nightly case.

    Args:
        name: ``network/inputs``.
        module: loads the network.
        judged: returns the inputs whose outputs are judged.
        calibration: returns the inputs that calibrate quantizers: others, of the same kind.
        metrics: of the task; beyond their limits, the network no longer does its job.
        requires: requirements of the packages that hold weights and inputs.
    """
    return Case(
        name,
        lambda: (module(), judged()[0]),
        calls=lambda: judged()[1:],
        calibration=calibration,
        metric=metrics,
        tags=frozenset({"trained", "nightly"}),
        targets=EVERY,
        vacuous="in 8 bits, the bounds of a deep network may be wider than its outputs; the "
        "metrics judge them",
        requires=tuple(item for group in requires for item in group),
    )
