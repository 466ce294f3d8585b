"""Calls of overloads: of core ATen, and of operators that a backend claims.

A case makes the calls of one overload of one group: float32 tensors, other dtypes, or empty tensors
and tensors of rank 0. Each call is an output under its text. A call that a limitation names is a
case of its own, so that the others of its group are still judged.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from harness import Case
from harness.model.registry import NIGHTLY
from suites.overloads.program import Build, ParsedCall, parse_call
from suites.overloads.tables import find_apart

_FLOAT = "portable:fp32|xnnpack:fp32|tosa:fp|mlx:fp32|metal:fp32"
TARGETS = {
    "float32": _FLOAT,
    # Metal's runtime makes no empty tensor; suites/opinfo has each operator with one.
    "edges": _FLOAT.removesuffix("|metal:fp32"),
    "dtypes": "portable:fp32|xnnpack:fp32",
}
"""Targets by group."""
_PLAIN = ("xnnpack:fp32", "tosa:fp", "mlx:fp32")
_SHARE = 16
"""One of so many cases is in the plain run, on one target."""
_VACUOUS = "some outputs are constant or empty: the arguments are those of the schema"
_CHOSEN = Path(__file__).with_name("calls.json")


def find_group(call: ParsedCall) -> str:
    """The group of a call: ``edges``, ``dtypes`` or ``float32``."""
    specs = [each.spec for each in call.tensors]
    if any(not spec.shape or 0 in spec.shape for spec in specs):
        return "edges"
    if specs and not any(spec.dtype.is_floating_point and spec.dtype.itemsize == 4 for spec in specs):
        return "dtypes"
    return "float32"


def _cases() -> Iterator[Case]:
    apart = find_apart()
    for overload, calls in json.loads(_CHOSEN.read_text(encoding="utf-8")).items():
        groups: dict[tuple[str, str], list[str]] = {}
        for number, text in enumerate(calls):
            group = find_group(parse_call(text))
            alone = f"call_{number}" if (overload, number) in apart else group
            groups.setdefault((group, alone), []).append(text)
        for (group, variant), texts in groups.items():
            yield _make_case(f"overloads/{overload}/{variant}", overload, group, tuple(texts))


def _make_case(name: str, overload: str, group: str, texts: tuple[str, ...]) -> Case:
    # A checksum of the name, so that the share of the plain run does not depend on other cases.
    drawn = zlib.crc32(name.encode())
    plain = _PLAIN[drawn // _SHARE % len(_PLAIN)] if drawn % _SHARE == 0 else ""
    return Case(
        name,
        Build(overload, texts),
        op=overload,
        tags=frozenset({"overloads", group} | (set() if plain else {NIGHTLY})),
        targets=TARGETS[group],
        plain_targets=plain,
        vacuous=_VACUOUS,
    )


CASES: list[Case] = list(_cases())
"""The calls of ``calls.json``, which ``python -m suites.overloads.choose`` writes."""
