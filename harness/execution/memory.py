"""How much memory a process holds, and the most that each stage of a cell held.

On Linux /proc tells, and the kernel's high-water mark of resident pages, set back as a stage
begins, is exact however short the peak was. Elsewhere psutil tells, and the most is what was seen
many times a second, or what the process ever held if that rose meanwhile.

Imports neither torch nor numpy: children import it as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from harness.errors import OutOfMemory

GIB = 2**30
_LINUX = sys.platform == "linux"
_PAGE = os.sysconf("SC_PAGE_SIZE")
# What lies free on the heap is given back when it is at least so much, and such a share of all that
# is held: going through a gigabyte of heap takes a tenth of a second.
_WORTH_TRIMMING = 64 * 2**20
_SHARE_WORTH_TRIMMING = 0.25
# Cycles are looked for when the process has grown by so much: the graphs that a worker keeps take a
# second to go through.
_WORTH_COLLECTING = 2**29
# Between two looks where there is no mark to set back.
_INTERVAL = 0.02
# How allocators of others say that there is no more, in exceptions that are no MemoryError: torch
# (c10/core/impl/alloc_cpu.cpp), C++ in what a binding makes of it, and GCC and its driver.
_REFUSALS = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "std::bad_alloc",
    "out of memory allocating",
    "Killed signal terminated program",
)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or what it was raised from, says that memory was refused."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError | OutOfMemory):
            return True
        if isinstance(error, Exception) and any(
            words in _get_message(error) for words in _REFUSALS
        ):
            return True
        error = error.__cause__
    return False


def format_memory_use(held: int, stage: str) -> str:
    """How every message about the memory of a cell begins.

    Args:
        held: bytes above the worker's base.
        stage: where; empty before the first.
    """
    return f"memory: {held / GIB:.2f} GiB {f'at stage {stage}' if stage else 'before any stage'}"


def read_resident_bytes(pid: int | None = None) -> int:
    """Bytes of memory that a process has pages for; 0 when there is no such process.

    Args:
        pid: of this user's; None for this process.
    """
    if not _LINUX:
        return _psutil_resident_bytes(pid)
    return _read_statm(pid)[1]


def read_descendants_bytes(pid: int) -> dict[int, int]:
    """Bytes that each process below another one holds, at any depth, by process id.

    A child between fork and exec still is its parent's image and holds nothing of its own.
    """
    if not _LINUX:
        return {child: _psutil_resident_bytes(child) for child in _psutil_descendants(pid)}
    image, _ = _read_statm(pid)
    found: dict[int, int] = {}
    waiting = _list_children(pid)
    while waiting:
        child = waiting.pop()
        size, held = _read_statm(child)
        if child not in found and size:
            found[child] = 0 if size == image else held
            waiting += _list_children(child)
    return found


def read_proportional_bytes(pid: int) -> int:
    """Return the resident memory of a process, with each shared page divided among its processes.

    Takes milliseconds a GiB. Where the system has no such number, the result is that of
    :func:`read_resident_bytes`.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return _parse_kilobytes(file.read(), b"\nPss:")
    except (OSError, ValueError):
        return read_resident_bytes(pid)


class MemoryMeter:
    """The memory of one cell, in bytes.

    Attributes:
        base: what this process held as the cell began.
        peaks: the most above the base, by stage; what a
        :class:`~harness.execution.child_process.ChildProcess`
            took for the stage is in it. Where threads run cells at the same time, so is what the
            others took.
    """

    def __init__(self, entered: Callable[[str], None] | None = None) -> None:
        """Begin a cell.

        Args:
            entered: told the name of each stage as it begins.
        """
        self.base = _TRACKER.release()
        self.peaks: dict[str, int] = {}
        self._entered = entered

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Whatever is held in here is held by that stage."""
        if self._entered is not None:
            self._entered(name)
        _TRACKER.release()
        section = _Section()
        _TRACKER.begin(section)
        try:
            yield
        finally:
            _TRACKER.end(section)
            peak = max(section.peak - self.base, 0)
            self.peaks[name] = max(self.peaks.get(name, 0), peak)


@contextmanager
def count_child_memory(pid: int) -> Iterator[None]:
    """Count what another process takes in here, at most, to the stages that run."""
    before = read_resident_bytes(pid)
    if not _reset_peak(pid):
        yield
        return
    try:
        yield
    finally:
        _TRACKER.add_external(max(_read_peak(pid) - before, 0))


class _Section:
    peak = 0


class _PeakTracker:
    """The high-water mark of this process, of which there is one for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[_Section] = []
        self._is_exact = False
        self._sampler: threading.Thread | None = None
        self._lifetime = 0
        self._base = 0
        self._collected = 0

    def release(self) -> int:
        """Give back what earlier cells and stages left, where that is much, and say what is held.

        What lies free on the heap, the next stage would take first, and seem smaller than it is.
        Cycles are gone as well: the collector counts objects, and a gigabyte of weights may be one.
        """
        held = read_resident_bytes()
        collects = held - self._collected >= _WORTH_COLLECTING
        if collects:
            gc.collect()
        if collects or held - self._base >= max(
            _WORTH_TRIMMING, _SHARE_WORTH_TRIMMING * self._base
        ):
            _trim()
            self._base = held = read_resident_bytes()
        self._base = min(self._base, held)
        self._collected = held if collects else min(self._collected, held)
        return held

    def begin(self, section: _Section) -> None:
        with self._lock:
            if self._open:
                self._read()
            self._open.append(section)
            self._is_exact = _reset_peak(None)
            if not self._is_exact:
                self._lifetime = _read_lifetime_peak()
                self._note(read_resident_bytes())
                if self._sampler is None:
                    self._sampler = threading.Thread(target=self._sample, daemon=True)
                    self._sampler.start()

    def end(self, section: _Section) -> None:
        with self._lock:
            self._read()
            self._open.remove(section)

    def add_external(self, taken: int) -> None:
        with self._lock:
            self._note(read_resident_bytes() + taken)

    def _sample(self) -> None:
        """Look as long as a stage runs."""
        while True:
            with self._lock:
                if not self._open:
                    self._sampler = None
                    return
                self._note(read_resident_bytes())
            time.sleep(_INTERVAL)

    def _read(self) -> None:
        if self._is_exact:
            self._note(_read_peak(None))
        elif (peak := _read_lifetime_peak()) > self._lifetime:
            self._note(peak)
        else:
            self._note(read_resident_bytes())

    def _note(self, held: int) -> None:
        for section in self._open:
            section.peak = max(section.peak, held)


_TRACKER = _PeakTracker()


@contextmanager
def limit_allocations(further: int) -> Iterator[None]:
    """Refuse this process what it asks for beyond so many bytes more than it has, where the system
    can (Linux). Python and torch then raise; native code may end the process."""
    if not _LINUX:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with open("/proc/self/status", "rb") as file:
        limit = _parse_kilobytes(file.read(), b"\nVmData:") + further
    known = [value for value in (soft, hard) if value != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([limit, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _proc_path(pid: int | None, name: str) -> str:
    return f"/proc/{'self' if pid is None else pid}/{name}"


def _read_statm(pid: int | None) -> tuple[int, int]:
    """Address space and resident memory of a process, in bytes; zeros when it is gone."""
    try:
        with open(_proc_path(pid, "statm"), "rb", buffering=0) as file:
            size, held = file.read().split()[:2]
    except (OSError, ValueError):
        return 0, 0
    return int(size) * _PAGE, int(held) * _PAGE


def _list_children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file,
            ):
                found += map(int, file.read().split())
    return found


def _reset_peak(pid: int | None) -> bool:
    """Set the high-water mark of a process to what it holds; whether the system does that."""
    try:
        with open(_proc_path(pid, "clear_refs"), "wb", buffering=0) as file:
            file.write(b"5")
    except OSError:
        return False
    return True


def _read_peak(pid: int | None) -> int:
    try:
        with open(_proc_path(pid, "status"), "rb", buffering=0) as file:
            return _parse_kilobytes(file.read(), b"\nVmHWM:")
    except (OSError, ValueError):
        return 0


def _parse_kilobytes(text: bytes, name: bytes) -> int:
    """A number of kB in one of /proc's listings, in bytes."""
    return int(text[text.index(name) + len(name) :].split(maxsplit=1)[0]) * 1024


def _read_lifetime_peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * 1024 if _LINUX else peak


def _trim() -> None:
    """Give the heap's free pages back, where the C library can (glibc)."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _psutil_resident_bytes(pid: int | None) -> int:
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _psutil_descendants(pid: int) -> Sequence[int]:
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def _get_message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a message that cannot be made says nothing
        return ""
