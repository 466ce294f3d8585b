"""The noise of vendors' packages."""

from __future__ import annotations

import logging
import warnings


def silence_vendors() -> None:
    """What vendors' imports log and warn of is not what the user asked for."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
