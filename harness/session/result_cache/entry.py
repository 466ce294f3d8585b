"""Entries of the result cache: their layout, which cells are stored, and checks on reading."""

from __future__ import annotations

import hashlib
import platform
import re

import msgspec

from harness.model.limitation import NOT_RUN_ERROR
from harness.record import contradictions
from harness.record.cell import CacheOrigin, Cell, Status
from harness.record.folder import NOT_A_RECORD, format_now

#: Version of this layout; an entry of another version is a miss.
FORMAT = 1

# Signs that a cell did not run to its end: too little time, or the process died.
_KEPT = (Status.PASSED, Status.XFAILED, Status.UNSUPPORTED, Status.LOWERED)


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """One stored result.

    Attributes:
        format: version of the layout.
        key: cache key of the cell (:mod:`harness.session.result_cache.cache_key`).
        cell: its record, a line of ``cells.jsonl``.
        digest: digest of all other fields, so that a damaged entry is a miss.
        claim: its claim about its limitation, as JSON; empty if it has none.
        claims: digest of the claim's further dependencies; empty if it has none.
        run: name of the run folder of the original run.
        host: name of the machine that ran the cell.
        when: time at which the cell ended, UTC, ISO 8601.
    """

    format: int
    key: str
    cell: str
    digest: str
    claim: str = ""
    claims: str = ""
    run: str = ""
    host: str = ""
    when: str = ""

    @classmethod
    def from_cell(
        cls, key: str, cell: Cell, *, run: str, host: str = "", claim: str = "", claims: str = ""
    ) -> StoredResult:
        """Make the entry of a cell that has just ended in this run, on this machine unless another
        host is named."""
        # Its saved files are in the folder of that run, and may have been removed.
        record = msgspec.structs.replace(
            cell, worker=None, saved_to="", merged_part=None, cached=None
        )
        made = cls(
            format=FORMAT,
            key=key,
            cell=record.to_json(),
            digest="",
            claim=claim,
            claims=claims,
            run=run,
            host=host or platform.node(),
            when=format_now(),
        )
        return msgspec.structs.replace(made, digest=made._digest())

    def to_bytes(self) -> bytes:
        """Encode the entry."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, content: bytes, key: str) -> StoredResult | None:
        """Decode an entry that was stored under a key; None if it is damaged, has another key or
        another layout."""
        try:
            found = msgspec.json.decode(content, type=cls)
        except NOT_A_RECORD:
            return None
        is_whole = found.format == FORMAT and found.key == key and found.digest == found._digest()
        return found if is_whole else None

    def load_cell(self, name: str) -> Cell | None:
        """Return the record with its origin; None if it is not a usable record of this cell.

        Args:
            name: the cell's id.
        """
        try:
            cell = Cell.from_json(self.cell)
        except NOT_A_RECORD:
            return None
        if cell.id != name or not is_cacheable(cell):
            return None
        cell.cached = CacheOrigin(run=self.run, host=self.host, when=self.when)
        return cell

    def _digest(self) -> str:
        parts = (self.key, self.cell, self.claim, self.claims, self.run, self.host, self.when)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def is_cacheable(cell: Cell) -> bool:
    """Return whether a record is stored: only if the dependencies in the key determined the result.

    Red cells and unavailable cells are never stored. An expected failure is not stored if the cell
    did not run, was ended from outside, or was not traced completely for want of time.
    """
    if (
        cell.status not in _KEPT
        or cell.merged_part is not None
        or contradictions.find_cell_contradiction(cell)
    ):
        return False
    if cell.limitation is None:
        return True
    cut_short = cell.trace_skipped or (cell.first_divergence and cell.first_divergence.note)
    return cell.error != NOT_RUN_ERROR and not cut_short and not _was_ended(cell)


def _was_ended(cell: Cell) -> bool:
    """Return whether its process died, or was ended because of its time or memory."""
    said = r"memory: |Timeout \(|Fatal Python error|worker .* died"
    return re.match(said, cell.error or "") is not None
