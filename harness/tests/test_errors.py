"""The text of an error in a record."""

from __future__ import annotations

import pytest

from harness.errors import ConformError, describe


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("", "ValueError"),
        ("\n  too short\nmore", "ValueError: too short"),
        ("missing kernels:\n  - cumsum\nPlease add them.", "ValueError: missing kernels: - cumsum"),
        (
            "missing kernels (2 total):\n  - a::b\n  - c::d\nPlease add them.",
            "ValueError: missing kernels (2 total): - a::b - c::d",
        ),
        ("in order:\n first:\n second\n third", "ValueError: in order: first: second"),
        ("x" * 700, "ValueError: " + "x" * 587 + "…"),
    ],
)
def test_an_error_is_one_line_with_its_announced_list(message: str, line: str) -> None:
    assert describe(ValueError(message)) == line


def test_the_innermost_cause_is_shown_unless_one_is_an_error_of_this_project() -> None:
    ours, wrapper = ConformError("as we say it"), RuntimeError("a pass failed")
    ours.__cause__, wrapper.__cause__ = KeyError("inner"), ours
    assert describe(wrapper) == "ConformError: as we say it"
    ours.__cause__, wrapper.__cause__ = None, TypeError("inner")
    assert describe(wrapper) == "TypeError: inner"
