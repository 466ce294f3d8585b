"""What Inductor is spared is what it has, or nobody reads."""

from __future__ import annotations

import functools
import logging
from typing import Any

import pytest
from torch import _utils_internal
from torch._inductor import lowering  # noqa: F401  (registers what rules are made of)
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler

from harness.pipeline.speed import inductor


def _rules(handler: DtypePropagationOpsHandler) -> dict[str, Any]:
    return {
        name: (rule.func, rule.args, rule.keywords)
        for name, rule in vars(handler).items()
        if isinstance(rule, functools.partial)
    }


def test_rules_are_made_once_and_are_those_of_upstream() -> None:
    # Handlers of their own: the class hands out the only one that there is.
    ours, another, upstreams = (object.__new__(DtypePropagationOpsHandler) for _ in range(3))
    inductor._rules_once(ours)
    inductor._rules_once(another)
    inductor._make_rules(upstreams)
    assert _rules(ours) == _rules(another) == _rules(upstreams) != {}
    vars(ours).clear()
    inductor._rules_once(ours)
    assert not _rules(ours)


def test_metrics_are_recorded_for_who_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(inductor, "_record", seen.append)
    for level, handlers, name in (
        (logging.WARNING, [], "nobody"),
        (logging.INFO, [], "the log"),
        (logging.WARNING, [logging.NullHandler()], "the trace"),
    ):
        trace = logging.Logger("a trace")
        trace.handlers = handlers
        monkeypatch.setattr(inductor, "_trace", trace)
        monkeypatch.setattr(_utils_internal, "log", logging.Logger("a log", level))
        inductor._record_if_read(name)
    assert seen == ["the log", "the trace"]
