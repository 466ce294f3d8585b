"""Write the site: runs newest first, one in memory at a time, their cells as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import RunUnreadable
from harness.record.folder import load
from harness.record.run import Run
from reports import facts, jinja
from reports.comparison.snapshot import take_snapshot
from reports.site import changes, manifest, page
from reports.site.columns import Catalogue, CellHistory, columns, comparison
from reports.site.details import SHARD, write_details, write_histories
from reports.site.folder import INDEX, Folder, opened
from reports.site.pack import script
from reports.site.store import FoundRuns, find
from reports.summary import RunSummary, Totals
from reports.verdict import RunVerdict

FULL = 3
LAST = 60

_SCRIPTS = ("core", "units", "route", "chart", "model", "grid", "cells", "cellpage", "measures",
            "compare", "overview", "changes", "limitations", "start")  # fmt: skip


@dataclass
class Site:
    """What was written.

    Attributes:
        index: the page to open, absolute.
        runs: number of runs shown.
        cells: number of cells that any of them has.
        size: all files together, in bytes.
        remarks: what was left out and why, a line each; the site says the same.
    """

    index: Path
    runs: int = 0
    cells: int = 0
    size: int = 0
    remarks: list[str] = field(default_factory=list)


def write(
    out: Path,
    places: Sequence[Path],
    *,
    full: int = FULL,
    last: int = LAST,
    progress: Callable[[int, int], None] | None = None,
) -> Site:
    """Write the dashboard of some runs into a folder; an older site there is replaced.

    Args:
        out: the folder; new, empty, or a site written before.
        places: run folders and folders of runs.
        full: the newest runs of which every cell's record is kept; of older ones, red cells'.
        last: the newest runs that are shown.
        progress: called with the number of runs read and of all.

    Raises:
        RunUnreadable: a run that was named cannot be read, or there is none.
        RunUnwritable: the folder or the disk refuses; an older site is as it was.
        UsageError: ``out`` has other files than those of a site.
    """
    found = find(places)
    with opened(out) as folder:
        made = _SiteWriter(folder, found, places, full=full, last=last, progress=progress).write()
    return Site(
        index=(out / INDEX).resolve(),
        runs=len(made.runs),
        cells=len(made.catalogue.cells),
        size=folder.size,
        remarks=made.remarks,
    )


@dataclass
class _SiteWriter:
    folder: Folder
    found: FoundRuns
    places: Sequence[Path]
    full: int
    last: int
    progress: Callable[[int, int], None] | None
    catalogue: Catalogue = field(default_factory=Catalogue)
    histories: list[CellHistory] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    shown: dict[Path, str] = field(default_factory=dict)
    totals: list[Totals] = field(default_factory=list)
    asked: list[tuple[list[str], str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def write(self) -> _SiteWriter:
        """Everything but the promise that it is the new site comes first."""
        chosen = self.found.runs[: max(self.last, 1)]
        self.remarks += [f"left out: {line}" for line in self.found.unreadable]
        if older := len(self.found.runs) - len(chosen):
            self.remarks.append(f"left out: {older:,} older runs; show more with --last")
        newest: Run | None = None
        for number, path in enumerate(chosen):
            try:
                run = load(path)
            except RunUnreadable as error:
                if len(chosen) == 1:
                    raise
                self.remarks.append(f"left out: {error}")
                continue
            self._add(run)
            newest = newest or run
            if self.progress is not None:
                self.progress(number + 1, len(chosen))
        if newest is None:
            raise RunUnreadable(f"none of {len(chosen)} runs can be read: {self.remarks[0]}")
        write_histories(self.folder, self.histories, len(self.catalogue.cells))
        self._put("cells", self.catalogue.data())
        self._put("changes", changes.found(self.places, self.shown))
        base = self._base()
        self._put("main", {
            **manifest.rules(),
            "runs": self.runs,
            "base": base,
            "remarks": self.remarks,
            "shard": SHARD,
        })  # fmt: skip
        self._assets()
        news = None
        if base:
            paths = list(self.shown)
            news = page.news(load(paths[base]), newest, self.runs[base]["key"])
        rows = [{**run, "total": total} for run, total in zip(self.runs, self.totals, strict=True)]
        self.folder.publish(page.render(newest, rows, news, self.folder.data, self.remarks))
        return self

    def _base(self) -> int:
        """The newest older run asked for the same cells, else the one before; 0 if none."""
        same = [at for at, asked in enumerate(self.asked) if at and asked == self.asked[0]]
        return same[0] if same else min(1, len(self.asked) - 1)

    def _add(self, run: Run) -> None:
        name, key = f"r{len(self.runs)}", manifest.unique(facts.title(run), self.keys)
        found = RunSummary.from_run(run)
        snapshot, verdict, total = take_snapshot(found), RunVerdict.from_run(found), found.overall
        rows = sorted(((self.catalogue.add(row), row) for row in found.rows),
                      key=lambda item: item[0])  # fmt: skip
        cells = len(self.catalogue.cells)
        detailed = write_details(self.folder, name, run, rows, full=len(self.runs) < self.full)
        self._put(name, {
            **columns(rows, cells),
            **manifest.about(run, verdict, snapshot),
            "detailed": detailed,
        })  # fmt: skip
        compared = [snapshot.cells[row.id] for _, row in rows]
        self._put(f"m{len(self.runs)}", comparison(compared, snapshot))
        self.histories.append(CellHistory.from_rows(rows, cells))
        self.shown[run.path.resolve()] = key
        self.totals.append(total)
        self.asked.append((sorted(run.info.targets), run.info.selection))
        self.runs.append(manifest.entry(run, verdict, total, found.totals, name=name, key=key))

    def _put(self, name: str, value: Any) -> None:
        self.folder.write(f"{name}.js", script(name, value))

    def _assets(self) -> None:
        own = [f"site/{name}.js" for name in _SCRIPTS]
        script_text = jinja.sources("dom.js", "cell.js", *own)
        self.folder.write("app.js", script_text.encode())
        self.folder.write("theme.js", jinja.sources("site/theme.js").encode())
        style = jinja.sources("base.css", "site/site.css")
        self.folder.write("app.css", style.encode())
