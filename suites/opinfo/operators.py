"""OpInfo samples of the core operators.

A plain run has one sample per operator. A nightly run has up to four in float32 and one in each
other dtype; every other sample has inputs that are not contiguous.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from harness import Case
from suites.opinfo.sampling import DTYPES, Pick

_TARGETS = "portable:fp32|xnnpack:fp32|tosa:fp|mlx:fp32|metal:fp32"
_OF_OTHERS = "portable:fp32|xnnpack:fp32"
"""Targets of dtypes other than float32."""
_PLAIN_TARGETS = ("xnnpack:fp32", "mlx:fp32")
"""An operator has a cell on one of them in a plain run, in turns."""
_ENDS_PROCESS = {"sum": "mlx:fp32"}
"""Plain targets of operators whose sample ends the process on another: a new worker takes long."""
_VACUOUS = "the inputs are torch's; the outputs of some are constant or empty"
_CHOSEN = Path(__file__).with_name("samples.json")


def _cases() -> Iterator[Case]:
    entries = json.loads(_CHOSEN.read_text(encoding="utf-8")).items()
    for (entry, dtypes), plain in zip(entries, cycle(_PLAIN_TARGETS), strict=False):
        op = entry.removeprefix("nn.functional.").replace("/", "-")
        for dtype, numbers in dtypes.items():
            for position, number in enumerate(numbers):
                is_first = position == 0 and dtype == "float32"
                strided = (position + DTYPES.index(dtype)) % 2 == 1
                yield Case(
                    f"opinfo/{op}/{dtype}_{position}",
                    Pick(entry, dtype, number, strided).build,
                    op=op,
                    tags=frozenset({"opinfo", dtype}),
                    targets=_TARGETS if dtype == "float32" else _OF_OTHERS,
                    plain_targets=_ENDS_PROCESS.get(op, plain) if is_first else "",
                    vacuous=_VACUOUS,
                )


CASES: list[Case] = list(_cases())
"""The samples of ``samples.json``, which ``python -m suites.opinfo.choose`` writes."""
