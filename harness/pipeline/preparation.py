"""Before a process lowers: vendors are quiet, and torch is kept quick."""

from __future__ import annotations

import logging
import warnings


def prepare(*, speed: bool) -> None:
    """No noise of vendors, and torch kept quick if that is wanted."""
    silence_vendors()
    if speed:
        from harness.pipeline import speed as keeping

        keeping.install()


def silence_vendors() -> None:
    """What vendors' imports log and warn of is not what the user asked for."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
