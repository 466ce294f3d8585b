"""The noise of vendors' packages."""

from __future__ import annotations

import logging
import warnings

# What their imports log as warnings in every process, of nothing that a user could mend.
_LOUD = ("torchao", "torch.utils._pytree")


def quiet_imports() -> None:
    """Vendors' imports log errors only; everything else that logs goes on as it was."""
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.ERROR)


def silence_vendors() -> None:
    """What vendors' imports log and warn of is not what the user asked for."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
