"""What the dashboard's scripts have in common with Python, held against it in a real browser."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.record.folder import load
from reports import text
from reports.comparison.diff import ChangeKind, diff
from reports.site.tests import browser as chromium
from reports.site.tests.browser import follow, is_wide
from reports.site.tests.nights import EVIL, LONG, NAMES

pytestmark = chromium.needed
VIEWS = ["", "#/cells", "#/compare", "#/changes", "#/limitations"]


def test_two_runs_compare_as_conform_diff_does(
    opened: Callable[..., Any], index: str, nights: Path
) -> None:
    page = opened(f"{index}#/compare")
    seen: set[ChangeKind] = set()
    for before, after in [(0, 4), (4, 0), (1, 2), (2, 3), (2, 2)]:
        made = page.evaluate(
            """async ([a, b]) => {
              const [main, cells] = [await mainData(), await catalogue()];
              const side = (key) => sideOf(main.runs.find((run) => run.key === key));
              const { changes } = compareRuns(main, cells, await side(a), await side(b));
              return changes.map(({ kind, id, detail }) => [main.kinds[kind].value, id, detail]);
            }""",
            [f"night-{before}", f"night-{after}"],
        )
        wanted = diff(load(nights / f"night-{before}"), load(nights / f"night-{after}"))
        assert sorted((kind, name) for kind, name, _ in made) == sorted(
            (change.kind.value, change.id) for change in wanted.changes
        )
        # Of outcomes in the same order: worst first, of a kind the most severe mismatches.
        of_outcomes = {change.kind.value for change in wanted.changes if not change.unit}
        assert [(kind, name) for kind, name, _ in made if kind in of_outcomes] == [
            (change.kind.value, change.id) for change in wanted.changes if not change.unit
        ]
        measured = {change.kind.value for change in wanted.changes if change.unit}
        measured.add(ChangeKind.RUNTIME_CHANGED.value)
        assert sorted(tuple(item) for item in made if item[0] in measured) == sorted(
            (change.kind.value, change.id, change.detail)
            for change in wanted.changes
            if change.kind.value in measured
        )
        seen |= {change.kind for change in wanted.changes}
    assert {
        ChangeKind.MORE_SEVERE,
        ChangeKind.NUMERICS_WORSE,
        ChangeKind.BOUND_UP,
        ChangeKind.QUALITY_WORSE,
        ChangeKind.BYTES_UP,
        ChangeKind.PLANNED_MEMORY_UP,
        ChangeKind.TIME_UP,
        ChangeKind.DELEGATION_LOST,
        ChangeKind.DELEGATES_UP,
        ChangeKind.RUNTIME_CHANGED,
        ChangeKind.NEWLY_FAILING,
        ChangeKind.FIXED,
        ChangeKind.DISAPPEARED,
        ChangeKind.APPEARED,
        ChangeKind.NOT_RUN,
    } <= seen


def test_numbers_are_spelled_as_in_every_other_report(
    opened: Callable[..., Any], index: str
) -> None:
    choose = random.Random(0)
    values = [0.0, 1.0, 0.5, 0.9994, 0.9996, 1.004, 99.99, 100.5, 999_999.5, 59.94, 59.96,
              3_600.0, 1e-5, 9.9994e-4, 0.0994, 0.0996, 12345.678, 1e-7, 1e16]  # fmt: skip
    values += [choose.uniform(0, 10) * 10 ** choose.randint(-9, 9) for _ in range(300)]
    page = opened(index)

    def spelled(function: str, given: list[Any]) -> list[str]:
        made: list[str] = page.evaluate(
            f"values => values.map((value) => {function}(float(value)))", given
        )
        return made

    odd = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
    same = {"measure": text.measure, "decibels": text.decibels, "boundUse": text.bound_use,
            "seconds": text.seconds}  # fmt: skip
    for name, function in same.items():
        assert spelled(name, [*values, *odd]) == [
            function(value) for value in [*values, *odd.values()]
        ]
    sizes = [0, 1, 999, 1_000, 99_949, 999_499, 999_500, 10**6, 123_456_789, 10**9, 2**40, 10**13]
    assert spelled("size", sizes) == [text.size(value) for value in sizes]
    shares = [
        (part, whole) for whole in (0, 1, 3, 1_000, 4_561) for part in (0, 1, whole - 1, whole)
    ]
    shares = [(part, whole) for part, whole in shares if 0 <= part <= whole]
    made = page.evaluate("pairs => pairs.map(([part, whole]) => percent(part, whole))", shares)
    assert made == [text.percent(part, whole) for part, whole in shares]


def test_texts_of_records_show_as_text_everywhere(opened: Callable[..., Any], evil: str) -> None:
    page = opened(evil)
    for view in [*VIEWS, "#/cells?group=none", "#/cells?group=suite", "#/compare?by=cause"]:
        if view:
            follow(page, view)
        assert page.locator("img, iframe, object, main script, #view script").count() == 0, view
        assert page.locator("[href^='javascript']").count() == 0, view
        assert not is_wide(page), view
    assert "<script>alert(1)</script>" in page.text_content("#view")
    for name in [*NAMES, "a/b"]:
        target = f"{EVIL}:fp32" if name == "a/b" else "xnnpack:fp32"
        follow(page, f"#/cell?id={quote(f'{name}@{target}', safe='')}")
        shown = page.text_content("h1:visible")
        assert shown.endswith(f"@{text.line(target)}"), name
        assert text.line(name, 200).rstrip("…")[:190] in shown
        sheet = page.text_content(".sheet")
        assert ("not run" if name == NAMES[0] else "<script>alert(1)") in sheet
        assert page.locator("img, #view script, [href^='javascript']").count() == 0
        assert page.locator("#history .strip li").count() == 2
    follow(page, f"#/cell?id={quote(EVIL, safe='')}")
    assert page.locator(".sheet .o-not_run").count() == 1
    follow(page, "#/cell?id=ok/ok@xnnpack:fp32")
    assert page.get_attribute(".sheet a[rel]", "href") == "https://example.com/a?b=c&d=%22#x"
    follow(page, "#/cells?q=" + quote(LONG))
    assert page.text_content("#matching").startswith("1 of ")
