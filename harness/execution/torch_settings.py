"""Restore torch's process-wide settings after a block.

torchao changes Inductor's settings permanently when it quantizes a module, and a module may change
any setting while it is built.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

# A process that lowers has loaded them.
_CONFIGURATIONS = ("torch._inductor.config", "torch._functorch.config", "torch._dynamo.config")


@contextmanager
def restore_settings() -> Iterator[None]:
    """Restore torch's settings after a block.

    These are default dtype, gradient mode, threads, matmul precision, determinism, and the options
    of torch's compilers that affect their output.
    """
    dtype, gradients = torch.get_default_dtype(), torch.is_grad_enabled()
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    deterministic = _determinism()
    loaded: list[Any] = [sys.modules[name] for name in _CONFIGURATIONS if name in sys.modules]
    # Copied only after a change: a copy of all options takes half a millisecond.
    before = [(config, state := config.get_hash(), _options(config, state)) for config in loaded]
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.get_float32_matmul_precision() != precision:
            torch.set_float32_matmul_precision(precision)
        if _determinism() != deterministic:
            is_on, warns = deterministic
            torch.use_deterministic_algorithms(is_on, warn_only=warns)
        for config, state, options in before:
            if config.get_hash() != state:
                _restore(config, options)


def _determinism() -> tuple[bool, bool]:
    is_on = torch.are_deterministic_algorithms_enabled()
    return is_on, torch.is_deterministic_algorithms_warn_only_enabled()


@functools.lru_cache(64)
def _options(config: Any, _state: bytes) -> dict[str, Any]:
    """Return all options of a configuration; ``_state``, its current hash, is the cache key."""
    options: dict[str, Any] = config.get_config_copy()
    return options


def _restore(config: Any, options: dict[str, Any]) -> None:
    now = config.get_config_copy()
    for name, value in options.items():
        if now.get(name) != value:
            setattr(config, name, value)
