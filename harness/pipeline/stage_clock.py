"""Time and memory of each stage, attribution of errors to stages, and the process lock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import ConflictingOptions, StageFailure, StageOrderError
from harness.execution.process_lock import hold_process_lock
from harness.workers.memory import MemoryMeter

# Backends lock the parts of execution that must not run in parallel.
_UNLOCKED = ("run", "steady", "emulate")


class StageClock:
    """Runs stages and measures them.

    Attributes:
        seconds: wall-clock seconds of each stage that ran, in order.
        meter: measures the memory of each stage.
    """

    def __init__(self, meter: MemoryMeter | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.meter = meter or MemoryMeter()

    @contextmanager
    def attribute_errors(self, stage: str) -> Iterator[None]:
        """Raise every error in this context as a failure of the stage, exits and skips included."""
        try:
            with self.meter.stage(stage):
                yield
        except (StageOrderError, ConflictingOptions, StageFailure, KeyboardInterrupt):
            # A backend may detect an error of an earlier stage while it runs.
            raise
        except BaseException as error:
            raise StageFailure(stage, error) from error

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            with self.attribute_errors(name):
                if name in _UNLOCKED:
                    yield
                else:
                    with hold_process_lock():
                        start = time.perf_counter()  # do not count the wait for the lock
                        yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
