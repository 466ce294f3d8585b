"""The tables of operators in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from harness.record.program_data import OperatorClaim
from reports import text
from reports.support.views import CallSignature, Evidence, OperatorRow, Support, SupportTable

_MOST_OTHERS = 30
_LONGEST_REASON = 160

MEANINGS = {
    Support.YES: "delegated, and passes in a conclusive cell",
    Support.PARTLY: "passes, and other cells of it fail: xfailed or red",
    Support.FAILS: "delegated, and each cell that can tell fails: xfailed or red",
    Support.UNPROVEN: "delegated only in cells that prove nothing of it: vacuous, not executed, or "
    "failing for another reason",
    Support.NO: "cells call it, and it is never delegated",
    Support.UNTESTED: "claimed, and no cell calls it",
    Support.UNCLAIMED: "not claimed, and no cell calls it",
}


def describe_signatures(signatures: Iterable[CallSignature]) -> str:
    """Describe signatures by dtype: ``float32 rank 0-4 (dynamic, channels_last); int8 rank 2``."""
    by_dtype: defaultdict[str, list[CallSignature]] = defaultdict(list)
    for each in signatures:
        by_dtype[each.dtype].append(each)
    return "; ".join(
        " ".join(_describe_dtype(dtype, found)) for dtype, found in sorted(by_dtype.items())
    )


def _describe_dtype(dtype: str, signatures: Iterable[CallSignature]) -> Iterator[str]:
    found = list(signatures)
    if not dtype:
        yield "no tensor"
        return
    yield f"{dtype} rank {text.number_ranges({each.rank for each in found})}"
    properties = [each.layout for each in found if each.layout != "contiguous"]
    properties += ["dynamic" for each in found if each.dynamic]
    properties += ["quantized" for each in found if each.quantized]
    if properties:
        yield f"({', '.join(sorted(set(properties)))})"


def describe_claim(claim: OperatorClaim | None) -> str:
    """Describe a claim in a few words: ``float32, float16, quantized``."""
    if claim is None:
        return ""
    words = list(claim.dtypes or ["yes"])
    if claim.quantized:
        words.append("quantized")
    return ", ".join(words)


def describe_row(row: OperatorRow) -> str:
    """Describe what cells showed of an operator, in a line."""
    parts = []
    for label, kinds in (
        ("passed", (Evidence.PASSED,)),
        ("vacuous or not judged", (Evidence.VACUOUS, Evidence.OPEN)),
        ("xfailed", (Evidence.XFAILED,)),
        ("red", (Evidence.RED,)),
        ("never delegated", (Evidence.FALLBACK,)),
    ):
        if found := row.select(*kinds):
            parts.append(f"{label}: {describe_signatures(found)}")
    if row.claim is not None and row.support is Support.NO and row.reasons:
        ((reason, _),) = row.reasons.most_common(1)
        parts.append(f"reason: {text.line(reason, _LONGEST_REASON)}")
    return " · ".join(parts)


def describe_versions(table: SupportTable) -> str:
    """The packages that claims were read from: ``executorch 1.5.1, torch 2.13.0``."""
    packages = {} if table.claims is None else table.claims.packages
    return ", ".join(f"{name} {version}" for name, version in sorted(packages.items()))


def describe_table(table: SupportTable) -> str:
    """The numbers of a table, in a sentence."""
    counts = table.counts
    parts = [f"{counts[kind]} {kind.value}" for kind in Support if kind.value and counts[kind]]
    claims = table.claims
    if claims is None or claims.operators is None:
        problem = f" ({claims.problem})" if claims is not None and claims.problem else ""
        parts.append(f"its claims are not known{problem}")
    total = sum(counts.values())
    return f"{total} core ATen operators: {', '.join(parts)}."


def describe_gaps(table: SupportTable) -> list[str]:
    """Where claims and cells differ, a line each; many operators that are not core ATen are only
    counted."""
    lines = []
    for label, rows in (("claimed, never delegated", table.gaps),
                        ("delegated, not claimed", table.unclaimed),
                        ("claimed, and no cell calls it", table.untested)):  # fmt: skip
        names = [row.op for row in rows if row.is_core or len(rows) <= _MOST_OTHERS]
        others = f" and {len(rows) - len(names)} that are not core ATen"
        if rows:
            parts = ", ".join(names) or "none of core ATen"
            lines.append(f"{label}: {parts}{others if len(rows) > len(names) else ''}")
    return lines
