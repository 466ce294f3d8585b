"""What every stage has in common: time, memory, its name on whatever fails, and its turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import ConflictingOptions, StageFailure, StageOrderError
from harness.execution.memory import Meter
from harness.execution.process_lock import exclusive

# Executing is left to the backends, which say themselves what of it must take turns.
_UNLOCKED = ("run", "steady", "emulate")


class StageClock:
    """Runs stages.

    Attributes:
        seconds: wall-clock seconds of each stage that ran, in order.
        meter: what each of them held.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.meter = meter or Meter()

    @contextmanager
    def attributed(self, stage: str) -> Iterator[None]:
        """Whatever fails in here failed in that stage, be it an exit or a skip."""
        try:
            with self.meter.stage(stage):
                yield
        except (StageOrderError, ConflictingOptions, StageFailure, KeyboardInterrupt):
            # A backend may find while running what an earlier stage did wrong.
            raise
        except BaseException as error:
            raise StageFailure(stage, error) from error

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            with self.attributed(name):
                if name in _UNLOCKED:
                    yield
                else:
                    with exclusive():
                        start = time.perf_counter()  # waiting is nobody's work
                        yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
