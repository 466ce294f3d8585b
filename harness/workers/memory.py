"""Measure the memory of processes, and the peak of each stage of a cell.

On Linux the numbers come from /proc. The kernel's high-water mark of resident pages, reset when a
stage begins, is exact for a peak of any duration. On other systems psutil samples the memory fifty
times a second; if the process' lifetime peak rises in the meantime, that is the stage's peak.

The module imports neither torch nor numpy, because child processes import it.
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
# Trim the heap when memory has grown by this many bytes and by this share: a trim takes a tenth of
# a second a gigabyte.
_WORTH_TRIMMING = 64 * 2**20
_SHARE_WORTH_TRIMMING = 0.25
# Collect garbage when the process has grown by this many bytes: a collection over the graphs that a
# worker keeps takes a second.
_WORTH_COLLECTING = 2**29
# Seconds between samples on systems without a resettable peak.
_INTERVAL = 0.02
# Messages of allocators that raise no MemoryError: torch (c10/core/impl/alloc_cpu.cpp), C++ through
# a binding, GCC and its driver.
_REFUSALS = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "std::bad_alloc",
    "out of memory allocating",
    "Killed signal terminated program",
)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, reports a failed allocation."""
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
    """Return the beginning of every message about the memory of a cell.

    Args:
        held: bytes above the worker's base.
        stage: current stage; empty before the first.
    """
    return f"memory: {held / GIB:.2f} GiB {f'at stage {stage}' if stage else 'before any stage'}"


def read_resident_bytes(pid: int | None = None) -> int:
    """Return the resident memory of a process in bytes; 0 if there is no such process.

    Args:
        pid: id of a process of this user; None for this process.
    """
    if not _LINUX:
        return _psutil_resident_bytes(pid)
    return _read_statm(pid)[1]


def read_descendants_bytes(pid: int) -> dict[int, int]:
    """Return the resident bytes of all descendants of a process, by process id.

    A child between fork and exec still shares its parent's image and counts 0 bytes.
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
    """Measures the memory of one cell, in bytes.

    Attributes:
        base: memory of this process when the cell began.
        peaks: peak above the base, by stage, including the memory that a
            :class:`~harness.workers.child_process.ChildProcess` used for the stage. Where threads
            run cells at the same time, it includes the memory of the other cells.
    """

    def __init__(self, entered: Callable[[str], None] | None = None) -> None:
        """Begin a cell.

        Args:
            entered: called with the name of each stage when the stage begins.
        """
        self.base = _TRACKER.release()
        self.peaks: dict[str, int] = {}
        self._entered = entered

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the memory that is used within a block for a stage."""
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
    """Add the peak of another process within a block to the peaks of the running stages."""
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
    """Tracks the process-wide memory peak for the open sections of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[_Section] = []
        self._is_exact = False
        self._sampler: threading.Thread | None = None
        self._lifetime = 0
        self._base = 0
        self._collected = 0

    def release(self) -> int:
        """Release memory of earlier cells and stages if it is large, and return the resident bytes.

        A stage would reuse free heap memory and seem smaller than it is. Reference cycles are
        collected too: the collector counts objects, and one object may hold a gigabyte of weights.
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
        """Sample the memory while a stage runs."""
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
    """Limit what this process may allocate, within a block, to ``further`` bytes more than it has.

    Beyond the limit Python and torch raise; native code may end the process. Has an effect on Linux
    only.
    """
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
    """Return address space and resident memory of a process, in bytes; zeros if it is gone."""
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
    """Reset the peak of a process to its current memory; return whether the system supports it."""
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
    """Return a number of kB in a file of /proc, in bytes."""
    return int(text[text.index(name) + len(name) :].split(maxsplit=1)[0]) * 1024


def _read_lifetime_peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * 1024 if _LINUX else peak


def _trim() -> None:
    """Return free heap pages to the system, if the C library supports it (glibc)."""
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
    except Exception:  # the error's ``__str__`` fails
        return ""
