"""Size of a program's constants and times of its executions."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy

from harness.execution.execute import report_calls
from harness.execution.program import Program
from harness.model.backend import Backend, ReportsConstants

# Do not count smaller duplicates: they are shapes, scales and masks, equal by chance and cheap.
_LARGE = 4096

_REPEATS = 5
# Limit for all repeats together; other stages of a model take as long.
_SECONDS = 2.0


@dataclass(frozen=True)
class ConstantSizes:
    """Sizes of a program's constants.

    Attributes:
        constants: bytes of all constants, alignment included.
        duplicates: bytes that would be saved if equal constants of 4 KiB and more were stored once.
    """

    constants: int
    duplicates: int


def measure_constants(program: Program, backend: Backend) -> ConstantSizes:
    """Measure the constants of a program.

    Constants are in its constant segment, in named data, and in payloads that the backend can
    read.

    Args:
        program: the program.
        backend: the backend of its delegates.

    Raises:
        ProgramError: a payload cannot be read.
    """
    total = duplicates = 0
    places: set[tuple[int, int]] = set()
    digests: set[tuple[int, bytes]] = set()
    for blob in _blobs(program, backend):
        view = numpy.frombuffer(blob, numpy.uint8)
        place = (view.ctypes.data, view.size)
        if not view.size or place in places:
            continue  # stored once under two names
        places.add(place)
        total += view.size
        if view.size >= _LARGE:
            key = (view.size, hashlib.sha256(view.data).digest())
            duplicates += view.size if key in digests else 0
            digests.add(key)
    return ConstantSizes(total, duplicates)


def _blobs(program: Program, backend: Backend) -> Iterator[bytes | memoryview]:
    """The constants of a program. Constants that cannot be separated are one blob."""
    for buffer in program.file.program.constant_buffer:
        yield buffer.storage
    read_by_payload: set[str] = set()
    # Keep all blobs alive: the memory of a freed blob may be reused by another.
    inside: list[bytes | memoryview] = []
    payloads = {
        delegate.processed.index: payload
        for delegate, payload in zip(program.plan.delegates, program.delegates, strict=True)
    }
    for payload in payloads.values():
        if isinstance(backend, ReportsConstants) and payload.id == backend.delegate:
            held = backend.constants(payload)
            inside += held.blobs
            read_by_payload |= held.instead_of
    for key, data in program.named_data.items():
        if key not in read_by_payload:
            yield data
    yield from inside


@dataclass
class Stopwatch:
    """Times the calls of a loaded program, and repeats the first of them.

    Attributes:
        seconds: seconds of each call, in order.
        repeated: seconds of each repeat of the first call.
    """

    seconds: list[float] = field(default_factory=list)
    repeated: list[float] = field(default_factory=list)
    _repeat_call: Callable[[], object] | None = None

    @contextmanager
    def time_executions(self) -> Iterator[None]:
        """Time the executions in this context."""

        def record(spent: float, again: Callable[[], object]) -> None:
            self.seconds.append(spent)
            if self._repeat_call is None:
                self._repeat_call = again

        with report_calls(record):
            yield

    @property
    def first(self) -> float | None:
        """Seconds of the first call after the program was loaded."""
        return self.seconds[0] if self.seconds else None

    @property
    def steady(self) -> float | None:
        """The median of the repeats, or of the later calls if there were no repeats."""
        further = self.repeated or self.seconds[1:]
        return statistics.median(further) if further else None

    def repeat_first_call(self) -> None:
        """Time repeats of the first call on the loaded program, within a short time limit.

        Outputs and errors of the repeats are ignored: the judged calls have ended. Do not use
        this for programs with state, which the repeats would change.
        """
        again, expected = self._repeat_call, self.first or 0.0
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

    def release_program(self) -> None:
        """Drop the reference to the loaded program."""
        self._repeat_call = None
