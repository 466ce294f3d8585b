"""Parse ``--metric``: a name or a function, and a limit: ``top1>=0.9``, ``my.py:score<=3``."""

from __future__ import annotations

import re
from dataclasses import replace

from harness.checking import named_objects
from harness.errors import UsageError
from harness.model.metric import Metric
from harness.numerics.metrics.task import BY_NAME

_SPEC = re.compile(r"(?P<name>[^<>=]+?)\s*(?:(?P<side>[<>]=)\s*(?P<limit>[-+.\deE]+))?")


def parse_metric(spec: str) -> Metric:
    """Return the metric that a spec names.

    A name may be that of a :class:`harness.Metric`; a limit in the spec replaces its limits.

    Raises:
        UsageError: there is no such metric or function, or the limit is no number.
    """
    found = _SPEC.fullmatch(spec.strip())
    if found is None:
        raise UsageError(f"--metric {spec!r}: write NAME, NAME>=NUMBER or NAME<=NUMBER")
    name, side, limit = found["name"], found["side"], found["limit"]
    try:
        number = None if limit is None else float(limit)
    except ValueError:
        raise UsageError(f"--metric {spec!r}: {limit!r} is no number") from None
    if ":" in name:
        function = named_objects.load_object(name)
    elif name in BY_NAME:
        function = BY_NAME[name]
    else:
        raise UsageError(
            f"there is no metric {name!r}; give one of {', '.join(BY_NAME)}, or FILE.py:FUNCTION"
        )
    if isinstance(function, Metric):
        metric = function
    elif callable(function):
        metric = Metric(function, name.rpartition(":")[2])
    else:
        raise UsageError(
            f"--metric {name} is of type {type(function).__name__}, not a function or a "
            "harness.Metric"
        )
    if number is None:
        return metric
    return replace(
        metric,
        at_least=number if side == ">=" else None,
        at_most=number if side == "<=" else None,
    )
