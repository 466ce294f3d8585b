"""What of the vendors each part depends on, and whether it is still what was read.

A part replaces functions (``REPLACED``) and assumes how others behave (``ASSUMED``). Where one of
either has other code than was read when the part was written, or is gone, the part is left out:
programs would come out otherwise, or not at all. ``known.json`` has a digest of the code of each,
one for every release that was read; comments and docstrings do not count.

``python -m harness.pipeline.speed.originals`` prints what is not known of the installed packages,
``--write`` takes it into the file, which is to be done after reading what changed.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.pipeline.speed.originals.assumed import ASSUMED
from harness.pipeline.speed.originals.digesting import digest
from harness.pipeline.speed.originals.replaced import REPLACED

_FILE = Path(__file__).with_name("known.json")
_OTHER = "is not the one that was read"


def list_definitions(part: str) -> tuple[str, ...]:
    """The definitions that a part depends on: those that it replaces, and those that it assumes."""
    return tuple(dict.fromkeys((*REPLACED[part], *ASSUMED[part])))


def find_problems(part: str) -> list[str]:
    """Why a part must be left out, a reason a definition; nothing where all are as they were read.

    The part is imported first: the vendors' modules that it imports are then digested as they are
    in this process.
    """
    reasons = []
    try:
        importlib.import_module(f"harness.pipeline.speed.{part}")
    except (ImportError, AttributeError) as error:
        reasons.append(f"it does not import: {error}")
    return [found for name in list_definitions(part) if (found := find_problem(name))] + reasons


# Parts share definitions.
_problems: dict[str, str] = {}


def find_problem(name: str) -> str:
    """Why parts that depend on a definition must be left out; nothing where it is as it was read.

    The answer is kept: later alterations are not seen.

    Args:
        name: see :func:`~harness.pipeline.speed.originals.digesting.digest`.
    """
    if name not in _problems:
        _problems[name] = _find_problem(name)
    return _problems[name]


def _find_problem(name: str) -> str:
    try:
        found = digest(name)
    except (ImportError, AttributeError) as error:
        return f"{name} is not there: {error}"
    except (OSError, TypeError) as error:
        return f"{name} has no source to read: {error}"
    return "" if found in _read_known_digests().get(name, ()) else f"{name} {_OTHER}"


@functools.cache
def _read_known_digests() -> dict[str, list[str]]:
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, list[str]])


def _all_names() -> Iterator[str]:
    yield from sorted({name for part in REPLACED for name in list_definitions(part)})


def main(arguments: list[str]) -> int:
    """Print what is not known of the installed packages, or take it into the file.

    Args:
        arguments: ``--write``, and names of definitions to take; all of them by default.
    """
    found = {part: find_problems(part) for part in REPLACED}
    for part, lines in found.items():
        for line in lines:
            print(f"{part}: {line}")
    if "--write" not in arguments:
        return int(any(found.values()))
    wanted = set(arguments) - {"--write"}
    known = {name: _read_known_digests().get(name, []) for name in _all_names()}
    for name in known:
        if find_problem(name).endswith(_OTHER) and (not wanted or name in wanted):
            known[name] = [*known[name], digest(name)]
    _FILE.write_bytes(msgspec.json.format(msgspec.json.encode(known)) + b"\n")
    return 0
