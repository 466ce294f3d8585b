"""What JUnit documents have in common: text that XML can hold, and the counts of a suite."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from reports import text

# What XML 1.0 does not allow, beyond what text.clean replaces already.
_ILLEGAL = re.compile("[\ufffe\uffff]")


def attribute(value: str, limit: int) -> str:
    """Text of a record for an attribute: one line of at most so many characters."""
    return _ILLEGAL.sub("\ufffd", text.line(value, limit))


def body(value: str, limit: int) -> str:
    """Text of a record for the inside of an element, of at most so many characters."""
    return _ILLEGAL.sub("\ufffd", text.clean(value, limit))


def count(suite: ElementTree.Element) -> None:
    """Set a suite's numbers of tests, failures, errors and skipped tests."""
    suite.set("tests", str(len(suite)))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{kind}"))))
