"""What a worker says of its backends, so that the process of the records need not load them too."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from harness.record.folder import replace_file
from harness.record.run import BackendState

_SUFFIX = ".backends"


def tell(folder: Path, worker: str, states: dict[str, BackendState]) -> None:
    """Write them down where the controller looks; a full disk costs time alone."""
    with suppress(OSError):
        replace_file(folder / f"{worker}{_SUFFIX}", msgspec.json.encode(states))


def told(folder: Path, worker: str) -> dict[str, BackendState] | None:
    """What a worker has said; None where it has not."""
    try:
        data = (folder / f"{worker}{_SUFFIX}").read_bytes()
        return msgspec.json.decode(data, type=dict[str, BackendState])
    except (OSError, msgspec.MsgspecError):
        return None
