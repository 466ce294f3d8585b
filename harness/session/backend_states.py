"""What a worker says of its vendors, so that the process of the records need not load them too."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from harness.record.folder import write_atomically
from harness.record.run import BackendState

_SUFFIX = ".ready"


class VendorStates(msgspec.Struct, frozen=True, kw_only=True):
    """What a process knows once it has loaded the vendors.

    Attributes:
        backends: what they say of themselves.
        slow: the parts of :mod:`harness.pipeline.speed` that it goes without, and why.
        gone: the vendors' private names that it looked for and did not find, and what to do.
    """

    backends: dict[str, BackendState]
    slow_parts: dict[str, str] = {}
    missing_names: dict[str, str] = {}


def write_states(folder: Path, worker: str, ready: VendorStates) -> None:
    """Write it down where the controller looks; a full disk costs time alone."""
    with suppress(OSError):
        write_atomically(folder / f"{worker}{_SUFFIX}", msgspec.json.encode(ready))


def read_states(folder: Path, worker: str) -> VendorStates | None:
    """What a worker has said; None where it has not."""
    try:
        data = (folder / f"{worker}{_SUFFIX}").read_bytes()
        return msgspec.json.decode(data, type=VendorStates)
    except (OSError, msgspec.MsgspecError):
        return None
