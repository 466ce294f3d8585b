"""Explanations of mutants that survive for a good reason, as a TOML file; imports no torch.

::

    [9d92a79859]
    kind = "equivalent"
    reason = "mean_dims is None for no program: aten.mean.dim always has dims here"
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from harness.errors import UsageError

REVIEWS_FILE = "reviewed_mutants.toml"
"""Name of the file in the folder of suites."""


class MutantReview(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a mutant survives.

    Attributes:
        kind: ``equivalent``, no program can show it; ``harmless``, programs may differ in ways that
            affect no user, such as the order of two independent nodes.
        reason: why, for a reader who has the diff.
    """

    kind: Literal["equivalent", "harmless"]
    reason: str


def read_reviews(folder: Path) -> dict[str, MutantReview]:
    """Read the reviews of a folder of suites, by id of the mutant; empty if it has none.

    Raises:
        UsageError: the file is damaged.
    """
    path = folder / REVIEWS_FILE
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(content, dict[str, MutantReview])
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise UsageError(f"{path}: {error}") from error
