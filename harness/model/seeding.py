"""Seed and restore the random generators of torch, NumPy and Python."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

_outer_restores: ContextVar[bool] = ContextVar("outer_restores", default=False)


def case_seed(seed: int, name: str) -> int:
    """Return the 63-bit seed of one case, from the run seed and the case name only."""
    digest = hashlib.sha256(f"{seed}\0{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def seed_generators(seed: int, name: str) -> AbstractContextManager[None]:
    """Seed torch, NumPy and ``random`` from (run seed, name); restore their states after."""
    return seed_generators_with(case_seed(seed, name))


@contextmanager
def seed_generators_with(value: int) -> Iterator[None]:
    """Seed torch, NumPy and ``random`` with a number of up to 63 bits; restore them after."""
    import numpy
    import torch

    with nullcontext() if _outer_restores.get() else restore_generators():
        # A nested block restores the state that this block has seeded.
        token = _outer_restores.set(False)
        # Not torch.manual_seed: it keeps a call, with its stack, for each device that is absent.
        torch.default_generator.manual_seed(value)
        random.seed(value)
        numpy.random.seed(value % 2**32)
        try:
            yield
        finally:
            _outer_restores.reset(token)


@contextmanager
def restore_generators() -> Iterator[None]:
    """Restore the generators after this block; seeding inside it does not restore them itself.

    This is for many seedings in a row: copying NumPy's state takes longer than a small module's
    run.
    """
    import numpy
    import torch

    torch_state = torch.get_rng_state()
    python_state, numpy_state = random.getstate(), numpy.random.get_state()
    token = _outer_restores.set(True)
    try:
        yield
    finally:
        _outer_restores.reset(token)
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        numpy.random.set_state(numpy_state)
