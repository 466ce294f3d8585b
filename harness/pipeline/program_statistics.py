"""Figures of a program beside its verdict: what its constants take, how long an execution takes."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy

from harness.execution.execute import hearing
from harness.execution.program import Program
from harness.model.backend import Backend, Holding

# Smaller constants are shapes, scales and masks: equal ones are chance, and cost nothing.
_LARGE = 4096

_REPEATS = 5
# What all repeats of a program may take: a model's other stages take that long, too.
_SECONDS = 2.0


@dataclass(frozen=True)
class Weight:
    """What a program carries.

    Attributes:
        constants: bytes of all constants, alignment included.
        duplicates: bytes that would be saved if equal constants of 4 KiB and more were stored once.
    """

    constants: int
    duplicates: int


def weigh(program: Program, backend: Backend) -> Weight:
    """Count the constants of a program: in its constant segment, in named data, and in payloads
    where the backend reads them.

    Args:
        program: what ships.
        backend: whose delegates are in it.

    Raises:
        ProgramError: a payload cannot be read.
    """
    total = duplicates = 0
    places: set[tuple[int, int]] = set()
    known: set[tuple[int, bytes]] = set()
    for blob in _blobs(program, backend):
        view = numpy.frombuffer(blob, numpy.uint8)
        place = (view.ctypes.data, view.size)
        if not view.size or place in places:
            continue  # two names of one place are stored once
        places.add(place)
        total += view.size
        if view.size >= _LARGE:
            key = (view.size, hashlib.sha256(view.data).digest())
            duplicates += view.size if key in known else 0
            known.add(key)
    return Weight(total, duplicates)


def _blobs(program: Program, backend: Backend) -> Iterator[bytes | memoryview]:
    """Each constant of a program; where nobody can tell them apart, several as one."""
    for buffer in program.file.program.constant_buffer:
        yield buffer.storage
    spoken_for: set[str] = set()
    # Kept alive, all of them: the place of one that is gone may be another's.
    inside: list[bytes | memoryview] = []
    payloads = {
        delegate.processed.index: payload
        for delegate, payload in zip(program.plan.delegates, program.delegates, strict=True)
    }
    for payload in payloads.values():
        if isinstance(backend, Holding) and payload.id == backend.delegate:
            held = backend.constants(payload)
            inside += held.blobs
            spoken_for |= held.instead_of
    for key, data in program.named_data.items():
        if key not in spoken_for:
            yield data
    yield from inside


@dataclass
class Stopwatch:
    """Times the calls of a loaded program, and repeats the first of them.

    Attributes:
        seconds: of each call, in order.
        repeated: of each repeat of the first one.
    """

    seconds: list[float] = field(default_factory=list)
    repeated: list[float] = field(default_factory=list)
    _again: Callable[[], object] | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Time what is executed in here."""

        def hear(spent: float, again: Callable[[], object]) -> None:
            self.seconds.append(spent)
            if self._again is None:
                self._again = again

        with hearing(hear):
            yield

    @property
    def first(self) -> float | None:
        """The first call of the program after it was loaded."""
        return self.seconds[0] if self.seconds else None

    @property
    def steady(self) -> float | None:
        """The median of the repeats, or of the further calls where there were none."""
        further = self.repeated or self.seconds[1:]
        return statistics.median(further) if further else None

    def repeat(self) -> None:
        """Execute the first call again, on the program that is still loaded, a few times or as
        often as a short time allows. What it returns is nobody's, and so is what it raises: the
        calls that are judged have ended. Not for programs with state, which would be another's.
        """
        again, expected = self._again, self.first or 0.0
        begun = time.perf_counter()
        while again is not None and len(self.repeated) < _REPEATS:
            start = time.perf_counter()
            if start - begun + expected > _SECONDS:
                break
            try:
                again()
            except Exception:
                self.repeated.clear()
                break
            expected = time.perf_counter() - start
            self.repeated.append(expected)

    def let_go(self) -> None:
        """Hold the program no longer."""
        self._again = None
