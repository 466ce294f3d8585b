"""Silence logs and warnings of vendors' packages."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager

# Each process that imports these logs warnings that a user can do nothing about.
_LOUD = ("torchao", "torch.utils._pytree")
# torch deep-copies its own deprecated tree specs.
_DEPRECATED = r".isinstance\(treespec, LeafSpec\). is deprecated"


def quiet_imports() -> None:
    """Let vendors' imports log errors only in this process, and ignore torch's warnings about its
    own code; all else is unchanged."""
    for name in _LOUD:
        _set_level(logging.getLogger(name), logging.ERROR)
    warnings.filterwarnings("ignore", _DEPRECATED)


@contextmanager
def quiet_vendors() -> Generator[None]:
    """Do the same within a block."""
    loggers = [logging.getLogger(name) for name in _LOUD]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        quiet_imports()
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                _set_level(logger, level)


def _set_level(logger: logging.Logger, level: int) -> None:
    """Set a logger's level, which clears a cache of every logger, only if it differs."""
    if logger.level != level:
        logger.setLevel(level)


def silence_vendors() -> None:
    """Drop all logs and warnings of vendors in this process; for commands, whose output is ours."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
