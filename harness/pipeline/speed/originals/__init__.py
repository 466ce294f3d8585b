"""Check that the vendor code which each speed part depends on is the reviewed one.

A part replaces functions (``REPLACED``) and assumes how others behave (``ASSUMED``). A part is
disabled if one of these definitions is missing or has other code than was reviewed, because
programs might differ. ``known.json`` has the digests of each definition, one for every reviewed
release; comments and docstrings do not count.

``python -m harness.pipeline.speed.originals`` prints unknown definitions of the installed packages;
with ``--write`` it adds their digests to the file. Read the changed code first.
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
    """List the definitions that a part replaces or assumes."""
    return tuple(dict.fromkeys((*REPLACED[part], *ASSUMED[part])))


def find_problems(part: str) -> list[str]:
    """Return the reasons to disable a part, one a definition; empty if all are known.

    The part is imported first, so that the digests cover the vendor modules that it imports as they
    are in this process.
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
    """Return the reason to disable parts that depend on a definition; empty if it is known.

    The result is cached: it does not notice later changes.

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
    """Print unknown definitions of the installed packages, or add their digests to the file.

    Args:
        arguments: ``--write``, and names of the definitions to add; all of them by default.
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
