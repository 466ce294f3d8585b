"""Helpers for JUnit XML: text that XML can hold, and the counts of a test suite."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from reports import text

# Characters that XML 1.0 does not allow and that text.clean does not replace.
_ILLEGAL = re.compile("[\ufffe\uffff]")


def attribute(value: str, limit: int) -> str:
    """Text of a record for an attribute: one line of at most ``limit`` characters."""
    return _ILLEGAL.sub("\ufffd", text.line(value, limit))


def body(value: str, limit: int) -> str:
    """Text of a record for the inside of an element, at most ``limit`` characters."""
    return _ILLEGAL.sub("\ufffd", text.clean(value, limit))


def count(suite: ElementTree.Element) -> None:
    """Set a suite's numbers of tests, failures, errors and skipped tests."""
    suite.set("tests", str(len(suite)))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{kind}"))))
