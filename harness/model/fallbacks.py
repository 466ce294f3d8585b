"""Expected fallback nodes: a target of a suite must not delegate less than before.

A folder of suites may have ``fallbacks.json``. For each target it lists the cases of the folder
that leave nodes to the runtime's own kernels, with the number of nodes of each operator, and the
number of delegates if there are several::

    {"executorch": "1.5.1",
     "targets": {"xnnpack:fp32": {"add/int32": {"aten.add.Tensor": 1}, "cat/2": {"delegates": 2}}}}

A case that is not listed leaves nothing. Quantize and dequantize nodes do not count: at the inputs
and outputs of a program they are always left. The file does not apply to earlier releases.
``conform list fallbacks RUN --write`` writes it from a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.errors import CaseError
from harness.record.cell import Cell, Delegation
from harness.record.folder import write_atomically
from harness.vendors.versions import installed_version, is_installed_within

FILE = "fallbacks.json"
DELEGATES = "delegates"
"""The key of the number of delegates, beside the names of operators."""

Fallbacks = Mapping[str, int]
"""The number of fallback nodes by operator, and of delegates if there are several."""

FallbacksByCase = dict[str, dict[str, dict[str, int]]]
"""Target, then case, to its fallbacks; cases without any are left out."""


def read_fallbacks(folder: Path) -> FallbacksByCase:
    """Read the file of a folder; empty if there is none, or if it is for a later release.

    Raises:
        CaseError: the file is not as described above.
    """
    path = folder / FILE
    try:
        content = json.loads(path.read_bytes())
        since, targets = content["executorch"], content["targets"]
        well_formed = isinstance(since, str) and all(
            isinstance(number, int)
            for cases in targets.values()
            for nodes in cases.values()
            for number in nodes.values()
        )
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CaseError(f"{path} cannot be read: {error!r}; {_REWRITE}") from error
    if not well_formed:
        raise CaseError(
            f"{path} is not a table of numbers by target, case and operator; {_REWRITE}"
        )
    return targets if is_installed_within(since, "") else {}


_REWRITE = f"delete it and write it with conform list fallbacks RUN --write (see {__name__})"


def is_conversion(operator: str) -> bool:
    """Return whether an operator, by its name in reports, quantizes or dequantizes."""
    return ".quantize_per_" in operator or ".dequantize_per_" in operator


def count_fallbacks(delegation: Delegation) -> dict[str, int]:
    """Return the fallback nodes of a lowered program that count, and its delegates if several."""
    found = {
        name: number
        for name, number in delegation.undelegated_ops.items()
        if not is_conversion(name)
    }
    if delegation.delegates > 1:
        found[DELEGATES] = delegation.delegates
    return found


def find_lost_delegation(expected: Fallbacks, delegation: Delegation) -> str | None:
    """Return which nodes a program leaves beyond the expected ones, or None.

    Fewer nodes and delegates than expected are no problem.
    """
    found = count_fallbacks(delegation)
    delegates = found.pop(DELEGATES, 1)
    allowed = max(1, expected.get(DELEGATES, 1))
    lost = [
        f"{name} ({number} instead of {expected.get(name, 0)})"
        for name, number in sorted(found.items())
        if number > expected.get(name, 0)
    ]
    problems = [f"not delegated: {', '.join(lost)}"] if lost else []
    if delegates > allowed:
        problems.append(f"{delegates} delegates instead of {allowed}")
    return "; ".join(problems) or None


def update_fallbacks(folder: Path, cells: Iterable[Cell], cases: Iterable[str]) -> bool:
    """Update the file of a folder from the cells of a run that were lowered, red ones included.

    Args:
        folder: a folder of suites.
        cells: cells of a run. A target joins the file if it delegates something in one of them.
        cases: the names of the folder's cases; entries of others are removed.

    Returns:
        Whether the content has changed.
    """
    mine = set(cases)
    targets = read_fallbacks(folder)
    before = json.dumps(targets)
    lowered = [cell for cell in cells if cell.case in mine and cell.program_bytes]
    new = {cell.target for cell in lowered if not cell.delegation.is_empty}
    for cell in lowered:
        if cell.target not in new | targets.keys():
            continue
        entries = targets.setdefault(cell.target, {})
        if left := count_fallbacks(cell.delegation):
            entries[cell.case] = left
        else:
            entries.pop(cell.case, None)
    targets = {
        target: {
            name: dict(sorted(entries[name].items())) for name in sorted(mine & entries.keys())
        }
        for target, entries in sorted(targets.items())
    }
    if json.dumps(targets) == before:
        return False
    write_atomically(folder / FILE, _format(targets).encode())
    return True


def _format(targets: FallbacksByCase) -> str:
    """Format the file with a line for each case, so that changes can be read."""
    blocks = []
    for target, entries in targets.items():
        lines = ",\n".join(f"   {json.dumps(name)}: {json.dumps(n)}" for name, n in entries.items())
        blocks.append(f"  {json.dumps(target)}: {{\n{lines}\n  }}" if lines else
                      f"  {json.dumps(target)}: {{}}")  # fmt: skip
    release, body = json.dumps(installed_version()), ",\n".join(blocks)
    return f'{{\n "executorch": {release},\n "targets": {{\n{body}\n }}\n}}\n'
