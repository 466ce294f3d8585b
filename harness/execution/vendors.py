"""The noise of vendors' packages."""

from __future__ import annotations

import logging
import warnings

# What their imports log as warnings in every process, of nothing that a user could mend.
_LOUD = ("torchao", "torch.utils._pytree")


def quiet_imports() -> None:
    """Vendors' imports log errors only, and torch does not warn of its own deprecated tree specs;
    everything else that logs and warns goes on as it was."""
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", r".isinstance\(treespec, LeafSpec\). is deprecated")


def silence_vendors() -> None:
    """What vendors' imports log and warn of is not what the user asked for."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
