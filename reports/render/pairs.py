"""Compare the encoded weights and the outputs of one case on two backends.

Only records of cases tagged ``cross_backend`` contain the bytes and the values.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.record.cell import CROSS_BACKEND, Cell
from harness.record.program_data import Encoding
from harness.record.run import Run
from reports import facts, text
from reports.summary import RunSummary


@dataclass(frozen=True)
class Weights:
    """How the encoded weights of two cells differ.

    Attributes:
        codes, scales: the number that differs, and the total number.
        exponents: largest difference of two power-of-two scales, in exponents.
        problem: why they cannot be compared byte by byte; empty if they can.
    """

    codes: tuple[int, int] = (0, 0)
    scales: tuple[int, int] = (0, 0)
    exponents: int = 0
    problem: str = ""

    @property
    def same(self) -> bool:
        """Whether there are weights and all are bit for bit equal."""
        return not self.problem and self.codes[1] > 0 and not self.codes[0] and not self.scales[0]

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        if self.same:
            return "bit for bit equal"
        codes, scales = (f"{part:,} of {whole:,}" for part, whole in (self.codes, self.scales))
        apart = f", by up to {text.count(self.exponents, 'exponent')}" if self.exponents else ""
        return f"{scales} scales{apart}, {codes} codes differ"


@dataclass(frozen=True)
class BackendPair:
    """One case on two targets of different backends.

    Attributes:
        case: its name.
        targets: the two targets, in the order of the run.
        weights: how the encoded weights differ.
        max_abs: largest absolute difference of the outputs.
        rel_fro: norm of the difference by the norm of the first target's outputs.
        cosine: of the two outputs as vectors.
        quality: SQNR of each target's outputs against the float model, in dB; None if not recorded.
        problem: why the outputs cannot be compared; empty if they can.
    """

    case: str
    targets: tuple[str, str]
    weights: Weights
    max_abs: float = math.nan
    rel_fro: float = math.nan
    cosine: float = math.nan
    quality: tuple[float | None, float | None] = (None, None)
    problem: str = ""


HEADER = (
    "Case", "Targets", "Encoded weights", "Max abs", "Rel. Frobenius", "Cosine",
    "Against the float model",
)  # fmt: skip


def row(pair: BackendPair) -> tuple[str, ...]:
    """The pair as text, one for each column of :data:`HEADER`."""
    outputs = [text.measure(value) for value in (pair.max_abs, pair.rel_fro, pair.cosine)]
    if pair.problem:
        outputs = [pair.problem, "–", "–"]
    return (
        pair.case,
        " and ".join(pair.targets),
        str(pair.weights),
        *outputs,
        " and ".join(map(text.decibels, pair.quality)),
    )


def pairs(run: Run | RunSummary) -> list[BackendPair]:
    """All pairs of a run, in its order; empty if no record contains weights and outputs."""
    cases: dict[str, list[Cell]] = defaultdict(list)
    for item in RunSummary.from_run(run).rows:
        if item.cell is not None and CROSS_BACKEND in item.cell.tags:
            cases[item.case].append(item.cell)
    return [
        _pair(first, second)
        for cells in cases.values()
        for first, second in itertools.combinations(cells, 2)
        if _backend(first) != _backend(second)
    ]


def _pair(first: Cell, second: Cell) -> BackendPair:
    targets = (first.target, second.target)
    quality = (facts.model_sqnr(first), facts.model_sqnr(second))
    made = _weights(first.encodings, second.encodings)
    left, right = _values(first), _values(second)
    if not left or [*map(len, left)] != [*map(len, right)]:
        without = [cell.target for cell in (first, second) if not cell.outputs]
        problem = f"no outputs of {' and '.join(without)}" if without else "output sizes differ"
        return BackendPair(first.case, targets, made, quality=quality, problem=problem)
    return BackendPair(first.case, targets, made, *_distances(left, right), quality)


def _weights(first: Sequence[Encoding], second: Sequence[Encoding]) -> Weights:
    left, right = ({one.parameter: one for one in part} for part in (first, second))
    if not left or left.keys() != right.keys():
        names = ", ".join(sorted(left.keys() ^ right.keys()))
        return Weights(problem=f"encoded by one backend only: {names}" if names else "not recorded")
    codes, scales, exponents = [0, 0], [0, 0], 0
    for name, one in left.items():
        other = right[name]
        if (one.element, one.block, one.columns) != (other.element, other.block, other.columns):
            return Weights(problem=f"{name}: {_format(one)} and {_format(other)}")
        parts = [_bytes(part) for part in (one.codes, other.codes, one.scales, other.scales)]
        if None in parts:
            same = one.codes_sha256 == other.codes_sha256
            same = same and one.scales_sha256 == other.scales_sha256
            if same:
                continue
            return Weights(problem=f"{name} differs; its bytes are not recorded")
        for counted, (a, b) in ((codes, parts[:2]), (scales, parts[2:])):
            assert a is not None
            assert b is not None
            if len(a) != len(b):
                return Weights(problem=f"{name}: {len(a)} and {len(b)} bytes")
            counted[0] += sum(x != y for x, y in zip(a, b, strict=True))
            counted[1] += len(a)
            if counted is scales:
                apart = (abs(x - y) for x, y in zip(a, b, strict=True))
                exponents = max(exponents, *apart)
    return Weights((codes[0], codes[1]), (scales[0], scales[1]), exponents)


def _distances(
    left: Sequence[Sequence[float]], right: Sequence[Sequence[float]]
) -> tuple[float, float, float]:
    """``max_abs``, ``rel_fro`` and ``cosine``; equal non-finite values are left out."""
    values = [
        (a, b)
        for one, other in zip(left, right, strict=True)
        for a, b in zip(one, other, strict=True)
        if not (a == b and math.isinf(a)) and not (math.isnan(a) and math.isnan(b))
    ]
    if not all(math.isfinite(a) and math.isfinite(b) for a, b in values):
        return math.inf, math.inf, 0.0
    error = math.hypot(*(a - b for a, b in values))
    norms = [math.hypot(*part) for part in zip(*values, strict=True)] or [0.0, 0.0]
    if not norms[0] or not norms[1]:
        same = not norms[0] and not norms[1]
        return (
            max((abs(a - b) for a, b in values), default=0.0),
            0.0 if same else (error / norms[0] if norms[0] else math.inf),
            1.0 if same else 0.0,
        )
    cosine = math.fsum((a / norms[0]) * (b / norms[1]) for a, b in values)
    return max(abs(a - b) for a, b in values), error / norms[0], min(1.0, max(-1.0, cosine))


def _values(cell: Cell) -> list[list[float]]:
    return [part.values for part in sorted(cell.outputs, key=lambda part: (part.call, part.output))]


def _bytes(encoded: str | None) -> bytes | None:
    return None if encoded is None else base64.b64decode(encoded)


def _format(one: Encoding) -> str:
    return f"{one.element} in blocks of {one.block}, {one.columns} columns"


def _backend(cell: Cell) -> str:
    return cell.target.partition(":")[0]


def rows(run: Run | RunSummary) -> Iterator[tuple[str, ...]]:
    """The :func:`row` of each pair."""
    return map(row, pairs(run))
