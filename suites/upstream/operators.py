"""Upstream's operator suite: on xnnpack:fp32 by day, on all targets at night."""

from __future__ import annotations

from harness import Case
from suites.upstream.harvest import cases_of, harvest

CASES: list[Case] = [case for each in harvest() for case in cases_of(each)]
