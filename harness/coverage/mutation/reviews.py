"""Explanations of mutants that survive for a good reason, as a TOML file; imports no torch.

::

    [[review]]
    file = "*/arm/_passes/*"
    operator = "keyword"
    before = "*from_node=*"
    kind = "harmless"
    reason = "from_node is read by debug output alone"
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from harness.errors import UsageError

REVIEWS_FILE = "reviewed_mutants.toml"
"""Name of the file in the folder of suites."""


REVIEWED_FIELDS = ("id", "file", "function", "statement", "operator", "before", "after")
"""Fields of mutants that reviews have globs for."""


class MutantReview(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why mutants survive.

    Attributes:
        kind: ``equivalent``, no program can show it; ``harmless``, programs may differ in ways that
            affect no user, such as debug information; ``unused``, no target of ours uses the code.
        reason: why, for a reader who has the diff.
        id, file, function, statement, operator, before, after: globs over the fields of mutants;
            all of them have to match. Runs of white space count as one space.
    """

    kind: Literal["equivalent", "harmless", "unused"]
    reason: str
    id: str = "*"
    file: str = "*"
    function: str = "*"
    statement: str = "*"
    operator: str = "*"
    before: str = "*"
    after: str = "*"


class _Reviews(msgspec.Struct, forbid_unknown_fields=True):
    review: list[MutantReview] = []


def read_reviews(folder: Path) -> list[MutantReview]:
    """Read the reviews of a folder of suites; empty if it has none.

    Raises:
        UsageError: the file is damaged, or a review matches mutants of all files.
    """
    path = folder / REVIEWS_FILE
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        found = msgspec.convert(content, _Reviews).review
    except FileNotFoundError:
        return []
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise UsageError(f"{path}: {error}") from error
    for review in found:
        if review.id == review.file == "*":
            raise UsageError(f"{path}: the review {review.reason!r} names neither id nor file")
    return found
