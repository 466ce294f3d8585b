"""Calls of overloads: of core ATen, and of operators that a backend claims.

A case makes the calls of one overload with float32 tensors, or with other dtypes and empty tensors.
Each call is an output under its text. Integer targets get a case of the calls that have no other
dtype and no tensor of rank 0, so that one refused call does not hide the others.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import torch

from harness import Case
from harness.model.registry import NIGHTLY
from suites.overloads.program import Build, ParsedCall, parse_call

TARGETS = {
    "float32": "xnnpack:fp32|tosa:fp|mlx:fp32|portable:fp32",
    # TOSA and Metal's runtime have no empty tensors, and few operators of other dtypes.
    "others": "xnnpack:fp32|mlx:fp32",
    "quantized": "tosa:int",
}
"""Targets by group."""
APART = frozenset(
    "amax.default amin.default conv2d.default mean.dim split.Tensor split.default "
    "split_with_sizes.default sum.dim_IntList topk.default var.correction var.dim".split()
)
"""Overloads whose float32 calls are cases of their own, because some backend refuses a few."""
_SHARE = 24
"""One of so many cases is in the plain run, on one target."""
_VACUOUS = "some outputs are constant or empty: the arguments are those of the schema"
_CHOSEN = Path(__file__).with_name("calls.json")


def find_group(call: ParsedCall) -> str:
    """The group of a call: ``float32``, or ``others`` with other dtypes or empty tensors."""
    specs = [each.spec for each in call.tensors]
    is_float32 = not specs or any(spec.dtype == torch.float32 for spec in specs)
    return "float32" if is_float32 and not any(0 in spec.shape for spec in specs) else "others"


def _can_quantize(text: str) -> bool:
    """Whether a quantizer takes all tensors of a call and its result."""
    specs = [each.spec for each in parse_call(text).tensors]
    fits = all(spec.dtype == torch.float32 and len(spec.shape) > 0 for spec in specs)
    names_dtype = re.search(r"torch\.(?!\w+_format)", text)
    return bool(specs) and fits and not names_dtype


def _cases() -> Iterator[Case]:
    for overload, calls in json.loads(_CHOSEN.read_text(encoding="utf-8")).items():
        groups: dict[tuple[str, str], list[str]] = {}
        for number, text in enumerate(calls):
            group = find_group(parse_call(text))
            is_apart = overload in APART and group == "float32"
            alone = f"call_{number}" if is_apart else group
            groups.setdefault((group, alone), []).append(text)
            if group == "float32" and _can_quantize(text):
                variant = f"quantized_{number}" if is_apart else "quantized"
                groups.setdefault(("quantized", variant), []).append(text)
        for (group, variant), texts in groups.items():
            yield _make_case(f"overloads/{overload}/{variant}", overload, group, tuple(texts))


def _make_case(name: str, overload: str, group: str, texts: tuple[str, ...]) -> Case:
    # A checksum of the name, so that the share of the plain run does not depend on other cases.
    drawn = zlib.crc32(name.encode())
    targets = TARGETS[group].split("|")
    plain = targets[drawn // _SHARE % len(targets)] if drawn % _SHARE == 0 else ""
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
