"""Write the site. Runs are added newest first, and only one is in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from harness.coverage.claims import read_claims
from harness.coverage.mutation.mutant import list_campaigns
from harness.coverage.summary import read_summary
from harness.errors import ConformError, RunUnreadable
from harness.record.folder import load
from harness.record.run import Run
from reports import facts, jinja, sensitivity
from reports.comparison.diff import Diff, diff
from reports.comparison.snapshot import take_snapshot
from reports.coverage import page as coverage_page
from reports.mutation import page as mutation_page
from reports.site import changes, comparisons, manifest, page
from reports.site.columns import Catalogue, CellHistory, columns
from reports.site.details import SHARD, write_details, write_histories
from reports.site.folder import COVERAGE, INDEX, MUTATION, SENSITIVITY, SUPPORT, Folder, open_folder
from reports.site.pack import script
from reports.site.store import FoundRuns, find_runs
from reports.summary import RunSummary, Totals
from reports.support import page as support_page
from reports.support.views import SupportTable, build_tables
from reports.verdict import RunVerdict

_T = TypeVar("_T")

FULL = 3
LAST = 60

_SCRIPTS = ("core", "units", "route", "chart", "model", "grid", "cells", "cellpage", "compare",
             "overview", "changes", "limitations", "start")  # fmt: skip


@dataclass
class Site:
    """A site that was written.

    Attributes:
        index: the page to open, absolute.
        runs: number of runs shown.
        cells: number of different cells in these runs.
        size: total size of all files in bytes.
        remarks: reasons why the site omits runs, one line each; the site shows them too.
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
    """Write the dashboard of some runs into a folder and replace an older site there.

    Args:
        out: the folder; new, empty, or with an older site.
        places: run folders and folders of runs.
        full: number of newest runs with all records; older runs have only records of red cells.
        last: number of newest runs to show.
        progress: called with the number of runs read so far and the number of all runs.

    Raises:
        RunUnreadable: a named run cannot be read, or there is no run.
        RunUnwritable: the folder cannot be written; an older site is unchanged.
        UsageError: ``out`` has files that do not belong to a site.
    """
    found = find_runs(places)
    with open_folder(out) as folder:
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
    selections: list[tuple[list[str], str]] = field(default_factory=list)
    snapshots: list[bytes] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def write(self) -> _SiteWriter:
        """Write all data files, then publish the new ``index.html``."""
        chosen = self.found.runs[: max(self.last, 1)]
        self.remarks += [f"omitted: {line}" for line in self.found.unreadable]
        if older := len(self.found.runs) - len(chosen):
            self.remarks.append(f"omitted: {older:,} older runs; show more with --last")
        newest: Run | None = None
        for number, path in enumerate(chosen):
            try:
                run = load(path)
            except RunUnreadable as error:
                if len(chosen) == 1:
                    raise
                self.remarks.append(f"omitted: {error}")
                continue
            self._add(run)
            newest = newest or run
            if self.progress is not None:
                self.progress(number + 1, len(chosen))
        if newest is None:
            raise RunUnreadable(f"none of {len(chosen)} runs can be read: {self.remarks[0]}")
        write_histories(self.folder, self.histories, len(self.catalogue.cells))
        self._put("cells", self.catalogue.data())
        found = changes.find_changes(self.places, self.shown)
        self._put("changes", found)
        pairs = self._compare(found)
        base = self._base()
        self._put("main", {
            **manifest.list_rules(),
            "runs": self.runs,
            "base": base,
            "pairs": pairs,
            "remarks": self.remarks,
            "shard": SHARD,
        })  # fmt: skip
        self._assets()
        back = f"../{INDEX}"
        pages = {
            **self._write_page(
                chosen, "Coverage", COVERAGE, read_summary,
                lambda found, name: coverage_page.render(found, title=name, back=back),
            ),
            **self._write_page(
                chosen, "Mutation", MUTATION, list_campaigns,
                lambda found, name: mutation_page.render(found, title=name, back=back),
            ),
            **self._write_page(
                chosen, "Operators", SUPPORT, _build_support_tables,
                lambda found, name: support_page.render(found, title=name, back=back),
            ),
            **self._write_page(
                chosen, "Sensitivity", SENSITIVITY, sensitivity.read,
                lambda found, name: sensitivity.render(found, title=name, back=back),
            ),
        }  # fmt: skip
        news = None
        if base:
            news = page.count_news(self._diff(base, 0), self.runs[base]["key"])
        rows = [{**run, "total": total} for run, total in zip(self.runs, self.totals, strict=True)]
        self.folder.publish(
            page.render(newest, rows, news, self.folder.data, self.remarks, pages=pages)
        )
        return self

    def _write_page(
        self,
        paths: Sequence[Path],
        title: str,
        name: str,
        read: Callable[[Path], _T | None],
        render: Callable[[_T, str], str],
    ) -> dict[str, str]:
        """Write a page of the newest run that has data for it.

        Args:
            paths: the runs, newest first.
            title: title of the page.
            name: its file.
            read: reads the data of a run; falsy if it has none.
            render: renders the data and the name of the run.

        Returns:
            The file by the title; empty if no run has data.
        """
        for path in paths:
            try:
                found = read(path)
            except ConformError as error:
                self.remarks.append(f"omitted: {error}")
                continue
            if found:
                written = render(found, self.shown.get(path.resolve(), path.name))
                self.folder.write(name, written.encode())
                return {title: name}
        return {}

    def _base(self) -> int:
        """Index of the newest older run with the same selection, else of the previous one, or 0."""
        same = [at for at, each in enumerate(self.selections) if at and each == self.selections[0]]
        return same[0] if same else min(1, len(self.selections) - 1)

    def _compare(self, found: dict[str, Any]) -> list[tuple[int, int]]:
        """Write the comparisons of runs, and return their pairs."""
        places = {run["key"]: at for at, run in enumerate(self.runs)}
        linked = [(places[a], places[b]) for a, b in changes.list_pairs(found)]
        pairs = comparisons.select_pairs(len(self.runs), linked)
        for before, after in pairs:
            made = comparisons.describe_diff(self._diff(before, after), self.catalogue.cells)
            self._put(f"d{before}/{after}", made)
        return pairs

    def _diff(self, before: int, after: int) -> Diff:
        old, new = (comparisons.unpack_snapshot(self.snapshots[at]) for at in (before, after))
        return diff(old, new)

    def _add(self, run: Run) -> None:
        name, key = f"r{len(self.runs)}", manifest.make_unique_key(facts.title(run), self.keys)
        found = RunSummary.from_run(run)
        snapshot, verdict, total = take_snapshot(found), RunVerdict.from_run(found), found.overall
        rows = sorted(((self.catalogue.add(row), row) for row in found.rows),
                      key=lambda item: item[0])  # fmt: skip
        cells = len(self.catalogue.cells)
        detailed = write_details(self.folder, name, run, rows, full=len(self.runs) < self.full)
        self._put(name, {
            **columns(rows, cells),
            **manifest.describe_run_views(run, verdict, snapshot),
            "detailed": detailed,
        })  # fmt: skip
        self.snapshots.append(comparisons.pack_snapshot(snapshot))
        self.histories.append(CellHistory.from_rows(rows, cells))
        self.shown[run.path.resolve()] = key
        self.totals.append(total)
        self.selections.append((sorted(run.info.targets), run.info.selection))
        self.runs.append(manifest.list_entry(run, verdict, total, found.totals, name=name, key=key))

    def _put(self, name: str, value: Any) -> None:
        self.folder.write(f"{name}.js", script(name, value))

    def _assets(self) -> None:
        own = [f"site/{name}.js" for name in _SCRIPTS]
        script_text = jinja.sources("dom.js", "cell.js", *own)
        self.folder.write("app.js", script_text.encode())
        self.folder.write("theme.js", jinja.sources("site/theme.js").encode())
        style = jinja.sources("base.css", "site/site.css")
        self.folder.write("app.css", style.encode())


def _build_support_tables(path: Path) -> list[SupportTable]:
    """The tables of a run that has claims; empty for another one, which is then not read again."""
    claims = read_claims(path)
    return build_tables(load(path), claims) if claims else []
