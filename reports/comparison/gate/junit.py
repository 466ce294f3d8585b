"""Render a judgement as JUnit XML: a suite per target, a test per cell, and a suite ``gate``."""

from __future__ import annotations

from xml.etree import ElementTree as xml

from reports import junit
from reports.comparison.diff import Change
from reports.comparison.gate.judge import Judgement
from reports.comparison.snapshot import CellFacts


def render(judged: Judgement) -> str:
    """Render the document.

    A red change is a failure, an obstacle an error. Cells that did not execute, are waived or
    failed before are skipped, with the reason.
    """
    root = xml.Element("testsuites", name="conform gate")
    red: dict[str, list[Change]] = {}
    for change in judged.red:
        red.setdefault(change.id, []).append(change)
    excused = {change.id: f"waived: {waiver.reason}" for change, waiver in judged.waived}
    excused |= {change.id: "fails as in the baseline" for change in judged.known}
    mild = "mismatch below severity_at_least"
    excused |= {change.id: f"{mild}: {change.description}" for change in judged.mild}
    cells = dict(judged.found.after.cells)
    for name, changes in red.items():
        cells.setdefault(name, changes[0].cell)
    targets: dict[str, list[tuple[str, CellFacts]]] = {}
    for name, cell in cells.items():
        targets.setdefault(cell.target, []).append((name, cell))
    for target, members in targets.items():
        suite = xml.SubElement(root, "testsuite", name=_safe(target))
        for name, cell in members:
            _test(suite, name, cell, red.get(name, []), excused.get(name, ""))
    _gate(root, judged)
    for suite in root:
        junit.count(suite)
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _test(suite: xml.Element, name: str, cell: CellFacts, red: list[Change], excuse: str) -> None:
    test = xml.SubElement(suite, "testcase", classname=_safe(cell.target), name=_safe(cell.case))
    if cell.seconds is not None:
        test.set("time", f"{cell.seconds:.3f}")
    if red:
        first = red[0]
        message = f"{first.kind.label}: {first.description}"
        failure = xml.SubElement(test, "failure", type=first.kind.value, message=_safe(message))
        lines = [f"{change.kind.label}: {change.description}" for change in red]
        failure.text = _safe("\n".join([*lines, cell.repro]), lines=True)
    elif excuse or not cell.outcome.is_pass:
        xml.SubElement(test, "skipped", message=_safe(excuse or cell.outcome.meaning))


def _gate(root: xml.Element, judged: Judgement) -> None:
    suite = xml.SubElement(root, "testsuite", name="gate")
    # This test is always present: a document without tests would count as success.
    test = xml.SubElement(suite, "testcase", classname="gate", name="could judge")
    if judged.obstacles:
        error = xml.SubElement(test, "error", type="obstacle", message=_safe(judged.obstacles[0]))
        error.text = _safe("\n".join(judged.obstacles), lines=True)
    for line in judged.waivers:
        test = xml.SubElement(suite, "testcase", classname="gate", name=_safe(line))
        xml.SubElement(test, "failure", type="waiver", message=_safe(line))


def _safe(value: str, *, lines: bool = False) -> str:
    return junit.body(value, 4_000) if lines else junit.attribute(value, 600)
