"""Upstream's operator suite: on all targets at night, and by day a program of each operator on
xnnpack:fp32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness import Case
from suites.upstream.harvest import SKIPPED, cases_of, harvest


def _cases() -> Iterator[Case]:
    seen: set[str] = set()
    for case in (case for each in harvest() for case in cases_of(each)):
        if case.op in seen or SKIPPED in case.tags:
            yield replace(case, plain_targets="")
        else:
            seen.add(case.op)
            yield case


CASES: list[Case] = list(_cases())
"""Programs that the installed executorch tests itself with, none of them written here."""
