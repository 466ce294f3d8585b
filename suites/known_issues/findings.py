"""What ``docs/findings.md`` says of a finding that no limitation of a suite describes."""

from __future__ import annotations

from typing import Any

from harness import KnownIssue

PAGE = "docs/findings.md"


def finding(title: str, workaround: str, **signs: Any) -> KnownIssue:
    """The issue of a finding. A test holds title and workaround against the page.

    Args:
        title: its heading, which is the cause.
        workaround: what the page gives as one.
        signs: other attributes of the issue.
    """
    return KnownIssue(cause=title, link=f"{PAGE}#{anchor(title)}", workaround=workaround, **signs)


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    kept = "".join(each for each in title.lower() if each.isalnum() or each in " -_")
    return kept.replace(" ", "-")
