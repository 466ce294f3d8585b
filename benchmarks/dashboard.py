"""Time and memory of the dashboard: writing it, opening it, filtering in it.

    python -m benchmarks.dashboard [--nights N] [--cells N] [--store FOLDER] [--keep FOLDER]

Writes synthetic nightly runs (see benchmarks.history) and the site with ``conform dashboard`` in a
new process, then opens the site from disk in headless Chromium. Paint is the browser's first
contentful paint of the overview, and for the table of cells the time from the start of the
navigation until its first rows are drawn. A filter is timed in the page, from the key in the search
field to the frame that shows its result; the slowest of each counts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.history import SyntheticRuns
from harness.record.folder import RUN_FILE
from reports.site.tests.browser import opened

AIM_PAINT_MS, AIM_FILTER_MS, AIM_GIB = 2_000, 150, 2.0
_QUERIES = [
    "op_1",
    "op_12 xnnpack",
    "runtimeerror",
    "variant_3",
    "tosa:int",
    "kernel of kind 3",
    "",
]

_FILTER = """async (text) => {
  const input = document.getElementById("search");
  const began = performance.now();
  input.value = text;
  input.dispatchEvent(new Event("input"));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""
_FIRST_PAINT = """() => new Promise((done) => {
  const seen = performance.getEntriesByName("first-contentful-paint");
  if (seen.length) return done(seen[0].startTime);
  new PerformanceObserver((list, all) => {
    const [entry] = list.getEntriesByName("first-contentful-paint");
    if (entry) { all.disconnect(); done(entry.startTime); }
  }).observe({ type: "paint", buffered: true });
})"""
_ROWS = """() => new Promise((done) => {
  const look = () => document.querySelector(".virtual .group")
    ? setTimeout(() => done(performance.now())) : requestAnimationFrame(look);
  look();
})"""


def main() -> None:
    """Measure and print."""
    given = _arguments()
    with tempfile.TemporaryDirectory() as scratch:
        store = given.store or Path(scratch) / "runs"
        out = given.keep or Path(scratch) / "site"
        _write_runs(store, given.cells, given.nights)
        table = Table(
            title=f"{given.nights} nightly runs of {given.cells:,} cells", title_justify="left"
        )
        for column in ("what", "measured", "aim"):
            table.add_column(column, justify="left" if column == "what" else "right")
        for again in ("first", "again"):
            seconds, peak = _write(out, store, given.nights)
            aim = f"{AIM_GIB:.0f} GiB"
            table.add_row(f"write the site ({again})", f"{seconds:.1f} s, {peak:.2f} GiB", aim)
        size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
        table.add_row("size of the site", f"{size / 1e6:.0f} MB", "")
        for what, milliseconds, aim in _browse(out):
            table.add_row(what, f"{milliseconds:.0f} ms", f"{aim} ms")
        Console().print(table)


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--store", type=Path, help="keep the runs in this folder")
    parser.add_argument("--keep", type=Path, help="keep the site in this folder")
    return parser.parse_args()


def _write_runs(store: Path, cells: int, nights: int) -> None:
    made = SyntheticRuns(cells, nights)
    for night in range(nights):
        folder = store / f"night-{night:04d}"
        if not (folder / RUN_FILE).exists():
            made.write(folder, night)


def _write(out: Path, store: Path, nights: int) -> tuple[float, float]:
    """Return seconds and peak GiB of a process that writes the site."""
    code = (
        "import resource, sys; from harness.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    began = time.perf_counter()
    command = [sys.executable, "-c", code, "dashboard", str(out), str(store), "--last", str(nights)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"conform dashboard failed:\n{done.stderr}")
    unit = 1 if sys.platform == "darwin" else 1024
    peak = int(done.stderr.strip().splitlines()[-1]) * unit / 2**30
    return time.perf_counter() - began, peak


def _browse(out: Path) -> list[tuple[str, float, int]]:
    index = (out / "index.html").resolve().as_uri()
    found: list[tuple[str, float, int]] = []
    with opened() as browser:
        paints, tables = [], []
        for _ in range(3):
            page = browser.new_page()
            page.goto(index)
            paints.append(page.evaluate(_FIRST_PAINT))
            page.close()
            page = browser.new_page()
            page.goto(f"{index}#/cells")
            tables.append(page.evaluate(_ROWS))
            page.close()
        found.append(("first paint of the overview, slowest of 3", max(paints), AIM_PAINT_MS))
        found.append(("first rows of the table of cells, slowest of 3", max(tables), AIM_PAINT_MS))
        page = browser.new_page()
        page.goto(f"{index}#/cells")
        page.wait_for_selector(".virtual .group")
        times = [page.evaluate(_FILTER, query) for query in _QUERIES]
        found.append((f"filter, slowest of {len(times)}", max(times), AIM_FILTER_MS))
        page.click("#expand")
        times = [page.evaluate(_FILTER, query) for query in _QUERIES]
        found.append(
            (f"filter with all groups open, slowest of {len(times)}", max(times), AIM_FILTER_MS)
        )
        began = time.perf_counter()
        page.goto(f"{index}#/compare")
        page.wait_for_selector("#changes h2")
        found.append(
            ("compare the two newest runs", 1e3 * (time.perf_counter() - began), AIM_PAINT_MS)
        )
    return found


if __name__ == "__main__":
    main()
