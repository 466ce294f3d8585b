"""Mutants and their results, as plain data; imports no torch."""

from __future__ import annotations

import difflib
import enum
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from harness.coverage.mutation.reviews import REVIEWED_FIELDS, MutantReview
from harness.errors import ConformError
from harness.record.folder import write_atomically

CAMPAIGNS = "mutation"
"""Folder of all campaigns in a run folder."""

RESULTS_FILE = "mutants.jsonl"
"""Results in the folder of a campaign: one JSON object a line, appended as mutants are judged."""

CAMPAIGN_FILE = "mutation.json"
"""The mutants that the campaign draws from, in the same folder."""

_VERSION = 1


class MutantOutcome(enum.StrEnum):
    """The result of the cells that execute a mutant; the first that applies."""

    INVALID = "invalid"
    """The mutated function cannot replace the function, or no cell passes without the mutant."""
    RED = "red"
    """A cell is red."""
    GATE = "gate"
    """No cell is red, and the gate refuses a difference of a cell, such as a lost delegate."""
    CHANGED = "changed"
    """Programs change, all cells stay green and the gate accepts them: harmless, or not seen."""
    UNCHANGED = "unchanged"
    """No program changes: the mutant is equivalent, or a case is absent."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One small change of a function.

    Attributes:
        id: digest of the file's name, the function, the change and its number among equal ones; the
            same in all versions that have the function and the changed text.
        area: area of the file.
        file: name of the file in the map.
        function: qualified name of the outermost function.
        begin, end_line: first and last line of this function, without decorators.
        first, last: lines of the changed statement, or of the header of a compound one.
        statement: text of these lines, with single spaces.
        operator: kind of the change.
        start, end: the changed bytes of the file.
        before: their text.
        after: the text in their place.
    """

    id: str
    area: str
    file: str
    function: str
    begin: int
    end_line: int
    first: int
    last: int
    statement: str = ""
    operator: str
    start: int
    end: int
    before: str
    after: str

    def is_explained_by(self, review: MutantReview) -> bool:
        """Whether a review explains why the mutant survives."""
        return all(
            fnmatchcase(" ".join(getattr(self, name).split()), getattr(review, name))
            for name in REVIEWED_FIELDS
        )

    def apply(self, source: bytes) -> bytes:
        """Return the mutated source of the file.

        Raises:
            ConformError: the file is another one.
        """
        if source[self.start : self.end].decode() != self.before:
            raise ConformError(f"{self.file} is not the file that mutant {self.id} was made for")
        return source[: self.start] + self.after.encode() + source[self.end :]

    def format_diff(self, source: bytes) -> str:
        """Return the change as a unified diff."""
        lines = difflib.unified_diff(
            source.decode().splitlines(keepends=True),
            self.apply(source).decode().splitlines(keepends=True),
            f"a/{self.file}",
            f"b/{self.file}",
        )
        return "".join(lines)


def make_mutant_id(*parts: object) -> str:
    """Return a digest of ten hexadecimal digits, such as the id of a mutant."""
    return hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=5).hexdigest()


class MutantResult(msgspec.Struct, frozen=True, kw_only=True):
    """The judged mutant.

    Attributes:
        mutant: the mutant.
        outcome: the result of its cells.
        sampled: whether it was drawn at random from all files, and counts in the score.
        tried: number of cells that ran.
        executing: number of recorded cells that execute the changed statement.
        cell: the cell that shows the outcome; empty for unchanged and invalid ones.
        detail: the cell's error, or why an invalid mutant is invalid.
        seconds: time that the cells took.
    """

    mutant: Mutant
    outcome: MutantOutcome
    sampled: bool = True
    tried: int = 0
    executing: int = 0
    cell: str = ""
    detail: str = ""
    seconds: float = 0.0


class FileMutants(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of all mutants of a file: in statements that a usable cell executes, in statements
    that are executed once in a process, and others. A cell is usable if it was green and took at
    most ten seconds."""

    executed: int = 0
    once: int = 0
    unexecuted: int = 0


class CampaignInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The mutants that a campaign draws from.

    Attributes:
        version: of this format.
        target: area, or backend and recipe, whose code is mutated.
        packages: versions of the packages that hold the code.
        files: numbers of mutants by file.
        cells: number of recorded cells to choose from.
        reviews: explanations of mutants that survive for a good reason.
    """

    version: int = _VERSION
    target: str
    packages: dict[str, str] = {}
    files: dict[str, FileMutants] = {}
    cells: int = 0
    reviews: list[MutantReview] = []

    def find_review(self, mutant: Mutant) -> MutantReview | None:
        """Return the first review that explains a mutant."""
        return next((each for each in self.reviews if mutant.is_explained_by(each)), None)


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign with its results so far, the last one of each mutant."""

    info: CampaignInfo
    results: dict[str, MutantResult]


def find_campaign_folder(run: Path, target: str) -> Path:
    """Return the folder of a target's campaign in the folder of a recorded run."""
    return run / CAMPAIGNS / target.replace(":", "_")


def open_campaign(folder: Path, info: CampaignInfo) -> Campaign:
    """Begin or continue a campaign: write its mutants to its folder, which is created.

    Returns:
        The campaign with its results so far.

    Raises:
        ConformError: the folder has results for other versions of the packages.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = {}
    if (folder / CAMPAIGN_FILE).exists():
        old = read_campaign(folder)
        results = old.results
        if results and old.info.packages != info.packages:
            raise ConformError(
                f"{folder} has results for {_spell(old.info.packages)}, and {_spell(info.packages)}"
                " is installed; remove the folder, or record a run with the installed version"
            )
    write_atomically(folder / CAMPAIGN_FILE, msgspec.json.format(msgspec.json.encode(info)))
    return Campaign(info=info, results=results)


def append_result(folder: Path, result: MutantResult) -> None:
    """Append a result to a campaign's folder."""
    with (folder / RESULTS_FILE).open("ab") as file:
        # An empty line ends a line that a killed process left.
        file.write(b"\n" + msgspec.json.encode(result) + b"\n")


def list_campaigns(run: Path) -> list[Campaign]:
    """Read all campaigns of a recorded run, by target.

    Raises:
        ConformError: one is damaged or of another version.
    """
    return [
        read_campaign(path.parent) for path in sorted(run.glob(f"{CAMPAIGNS}/*/{CAMPAIGN_FILE}"))
    ]


def read_campaign(folder: Path) -> Campaign:
    """Read a campaign; lines that were cut are ignored.

    Raises:
        ConformError: there is none, or it is damaged or of another version.
    """
    path = folder / CAMPAIGN_FILE
    try:
        info = msgspec.json.decode(path.read_bytes(), type=CampaignInfo)
    except OSError as error:
        raise ConformError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConformError(f"{path}: {error}") from error
    if info.version != _VERSION:
        raise ConformError(f"{path} has version {info.version}; this program reads {_VERSION}")
    results = {each.mutant.id: each for each in _read_results(folder / RESULTS_FILE)}
    return Campaign(info=info, results=results)


def _read_results(path: Path) -> Iterator[MutantResult]:
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        with suppress(msgspec.MsgspecError):
            yield msgspec.json.decode(line, type=MutantResult)


def _spell(packages: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in packages.items())
