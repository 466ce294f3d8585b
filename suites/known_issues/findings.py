"""Known issues of findings in ``docs/findings.md`` that no limitation of a suite describes."""

from __future__ import annotations

from typing import Any

from harness import KnownIssue

PAGE = "docs/findings.md"


def finding(title: str, workaround: str, **signs: Any) -> KnownIssue:
    """Make the known issue of a finding. A test compares title and workaround with the page.

    Args:
        title: heading of the finding, which is the cause.
        workaround: the workaround on the page.
        signs: other attributes of the issue.
    """
    return KnownIssue(cause=title, link=f"{PAGE}#{anchor(title)}", workaround=workaround, **signs)


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    letters = "".join(each for each in title.lower() if each.isalnum() or each in " -_")
    return letters.replace(" ", "-")
