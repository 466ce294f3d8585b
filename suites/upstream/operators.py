"""Upstream's operator suite: all targets in a nightly run, one program of each operator on
xnnpack:fp32 in a plain run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness import Case
from suites.upstream.harvest import SKIPPED, harvest, make_cases


def _cases() -> Iterator[Case]:
    seen: set[str] = set()
    for case in (case for each in harvest() for case in make_cases(each)):
        if case.op in seen or SKIPPED in case.tags:
            yield replace(case, plain_targets="")
        else:
            seen.add(case.op)
            yield case


CASES: list[Case] = list(_cases())
"""Programs of the installed executorch's own tests."""
