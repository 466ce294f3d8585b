"""The states of backends and vendors, which a worker writes for the controller.

The controller then need not load the vendors' packages itself.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from harness.record.folder import write_atomically
from harness.record.run import BackendState

_SUFFIX = ".ready"


class VendorStates(msgspec.Struct, frozen=True, kw_only=True):
    """The states that a process knows after it has loaded the vendors.

    Attributes:
        backends: the state of each backend, by name.
        slow_parts: the parts of :mod:`harness.pipeline.speed` that do not fit the installed
            release, and why.
        missing_names: the vendors' private names that are missing, and what to do about each.
    """

    backends: dict[str, BackendState]
    slow_parts: dict[str, str] = {}
    missing_names: dict[str, str] = {}


def write_states(folder: Path, worker: str, ready: VendorStates) -> None:
    """Write the states where the controller reads them; an error of the disk costs time only."""
    with suppress(OSError):
        write_atomically(folder / f"{worker}{_SUFFIX}", msgspec.json.encode(ready))


def read_states(folder: Path, worker: str) -> VendorStates | None:
    """Return the states that a worker has written; None if it has not."""
    try:
        data = (folder / f"{worker}{_SUFFIX}").read_bytes()
        return msgspec.json.decode(data, type=VendorStates)
    except (OSError, msgspec.MsgspecError):
        return None
