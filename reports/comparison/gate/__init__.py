"""Gate: judge a run by its changes from a baseline: green, red, or could not judge.

:func:`judge` returns the judgement as a value; ``terminal``, ``markdown``, ``github``,
``sarif`` and ``junit`` render it. docs/gate.md is the reference of the policy.
"""

from __future__ import annotations

from reports.comparison.gate.judge import Colour, Judgement, judge
from reports.comparison.gate.policy import Policy, Waiver, load, parse

__all__ = ["Colour", "Judgement", "Policy", "Waiver", "judge", "load", "parse"]
