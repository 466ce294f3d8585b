"""What is stored of a cell, which cells are, and whether what is read back can be believed."""

from __future__ import annotations

import hashlib
import platform
import re

import msgspec

from harness.model.limitation import NOT_RUN_ERROR
from harness.record import contradictions
from harness.record.cell import CacheOrigin, Cell, Status
from harness.record.folder import NOT_A_RECORD, format_now

#: Of this layout; an entry of another is a miss.
FORMAT = 1

# What is left of a cell that was not taken to its end, for want of time or by how a process died.
_KEPT = (Status.PASSED, Status.XFAILED, Status.UNSUPPORTED, Status.LOWERED)


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """One stored result.

    Attributes:
        format: of the layout.
        key: of the cell (:mod:`harness.session.result_cache.cache_key`).
        cell: its record, a line of ``cells.jsonl``.
        digest: of all the rest, so that a line that was damaged and is still a record is a miss.
        claim: what it says of its limitation, as JSON; empty where it says nothing.
        claims: what that hangs on besides the key; empty where it hangs on nothing else.
        run: name of the run folder that it is from.
        host: name of the machine that it ran on.
        when: it ended, UTC, ISO 8601.
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
        """What is stored of a cell that has just ended in this process' run, here unless another
        host is named."""
        # What was kept of it is in the folder of that run, and may be gone.
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
        """As it is stored."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, content: bytes, key: str) -> StoredResult | None:
        """An entry that was stored under a key; None for what is damaged, foreign or of another
        layout."""
        try:
            found = msgspec.json.decode(content, type=cls)
        except NOT_A_RECORD:
            return None
        is_whole = found.format == FORMAT and found.key == key and found.digest == found._digest()
        return found if is_whole else None

    def load_cell(self, name: str) -> Cell | None:
        """The record, saying where it is from; None where it is not one of this cell that may be
        taken.

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
    """Whether a record is stored: how the cell ended was decided by what its key is made of.

    Never what is red, or was not there to run; nor a failure that a limitation predicts where the
    cell was not run at all, was ended from outside, or was not traced to the end for want of time.
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
    """Whether its process died under it, or was ended for what it took."""
    said = r"memory: |Timeout \(|Fatal Python error|worker .* died"
    return re.match(said, cell.error or "") is not None
