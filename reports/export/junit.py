"""Export a run as JUnit XML: a suite per target, a test case per cell.

Only conclusive passes have neither ``skipped`` nor ``failure`` nor ``error``. Xfailed, unsupported,
lowered-only and vacuously passed cells are skipped, with the reason. Cells of an unavailable
backend and cells without a record are errors: a skipped test
would not turn a CI job red, and these cells were not tested. The last suite, ``run``, fails if the
verdict of the run is not good although no cell is red.
"""

from __future__ import annotations

import math
from datetime import datetime
from xml.etree import ElementTree

from harness.record.cell import Cell, Status
from harness.record.run import Run
from reports import facts, junit, text
from reports.moment import parse_time
from reports.outcome import CellOutcome
from reports.summary import CellRow, RunSummary
from reports.verdict import RunVerdict

_SKIPPED = {CellOutcome.XFAILED, CellOutcome.UNSUPPORTED, CellOutcome.LOWERED, CellOutcome.VACUOUS}
_ERROR = {CellOutcome.CRASHED, CellOutcome.TIMEOUT, CellOutcome.UNAVAILABLE, CellOutcome.NOT_RUN}
_MESSAGE = 1_000
_BODY = 20_000


def render(run: Run) -> bytes:
    """Render the XML of a run, in UTF-8."""
    found = RunSummary.from_run(run)
    judged = RunVerdict.from_run(found)
    root = ElementTree.Element("testsuites", name=_attribute(facts.title(run)))
    groups: dict[str, list[CellRow]] = {name: [] for name in found.targets}
    for row in found.rows:
        groups[row.target].append(row)
    for target, rows in groups.items():
        suite = _suite(root, run, target)
        for row in rows:
            _case(suite, row, run)
        _count(suite, [row.cell for row in rows if row.cell is not None])
    suite = _suite(root, run, "run")
    case = ElementTree.SubElement(suite, "testcase", classname="run", name="verdict", time="0")
    # Red cells already fail. Any other reason for a bad verdict needs a test of its own.
    if not judged.is_good and not (run.is_complete and found.overall.red):
        _outcome(case, "error", judged.kind.value, judged.headline,
                 [judged.sentence, *judged.concerns])  # fmt: skip
    _count(suite, [])
    for name in ("tests", "failures", "errors"):  # the schema has no total of skipped tests
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", _seconds(sum(float(suite.get("time", "0")) for suite in root)))
    ElementTree.indent(root, space=" ")
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _suite(root: ElementTree.Element, run: Run, name: str) -> ElementTree.Element:
    made = ElementTree.SubElement(root, "testsuite", name=_attribute(name))
    host = run.info.environment.host
    made.set("hostname", _attribute(host) if host else "unknown")
    made.set("timestamp", _timestamp(run.info.started))
    return made


def _case(suite: ElementTree.Element, row: CellRow, run: Run) -> None:
    seconds = _seconds(row.cell.seconds) if row.cell is not None else "0"
    case = ElementTree.SubElement(
        suite, "testcase", classname=_attribute(row.target), name=_attribute(row.case), time=seconds
    )
    outcome = row.outcome
    if outcome is CellOutcome.PASSED:
        return
    if outcome.is_pass:
        body = [outcome.label]
        if row.cell is not None and outcome is CellOutcome.DEGRADED:
            body.append(facts.degradation(row.cell))
        _body(ElementTree.SubElement(case, "system-out"), ": ".join(body))
        return
    kind = "skipped" if outcome in _SKIPPED else ("error" if outcome in _ERROR else "failure")
    lines = [f"{row.words}: {outcome.meaning}"]
    cell = row.cell or Cell(
        case=row.case, target=row.target, status=Status.UNAVAILABLE, seed=run.info.seed
    )
    reason = cell.error or cell.vacuous_reason
    if outcome in _SKIPPED and cell.limitation is not None:
        reason = cell.limitation.reason
        lines.append(f"limitation: {reason}")
        lines += [cell.limitation.link] if cell.limitation.link else []
    lines += [f"stage {cell.stage}"] if cell.stage else []
    lines += [item for item in (cell.error or "", facts.describe_worst_output(cell)) if item]
    lines.append(cell.repro)
    if cell.traceback:
        lines.append(text.tail(cell.traceback, _BODY))
    _outcome(case, kind, outcome.value, f"{row.words}: {reason or outcome.meaning}", lines)


def _outcome(
    case: ElementTree.Element, kind: str, word: str, message: str, lines: list[str]
) -> None:
    made = ElementTree.SubElement(case, kind, message=_attribute(message))
    if kind != "skipped":
        made.set("type", _attribute(word))
    _body(made, "\n".join(lines))


def _count(suite: ElementTree.Element, cells: list[Cell]) -> None:
    junit.count(suite)
    suite.set("time", _seconds(sum(cell.seconds for cell in cells if math.isfinite(cell.seconds))))


def _body(element: ElementTree.Element, value: str) -> None:
    element.text = junit.body(value, 2 * _BODY)


def _attribute(value: str) -> str:
    return junit.attribute(value, _MESSAGE)


def _seconds(value: float) -> str:
    return f"{value:.6f}" if math.isfinite(value) and value > 0 else "0"


def _timestamp(started: str) -> str:
    # The schema that CI systems check has no time zone in it.
    when = parse_time(started) or datetime(1970, 1, 1)
    return when.replace(tzinfo=None).isoformat(timespec="seconds")
