"""Texts and comparisons that the dashboard shows equal those of Python, in a real browser."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from harness.record.folder import load
from reports import text
from reports.comparison.diff import ChangeKind, diff
from reports.site.manifest import TONES
from reports.site.tests import browser as chromium
from reports.site.tests.browser import follow, is_wide
from reports.site.tests.nights import EVIL, LONG, NAMES

pytestmark = chromium.needed
VIEWS = ["", "#/cells", "#/compare", "#/changes", "#/limitations"]


def test_the_page_shows_the_changes_of_conform_diff(
    opened: Callable[..., Any], index: str, nights: Path
) -> None:
    page = opened(index)
    seen: set[ChangeKind] = set()
    for before, after in [(0, 4), (4, 0), (1, 2), (2, 3)]:
        follow(page, f"#/compare?a=night-{before}&b=night-{after}")
        while page.locator(".changegroup button:visible").count():
            page.locator(".changegroup button:visible").first.click()
        shown = page.eval_on_selector_all(
            ".change",
            "rows => rows.map((row) => [...row.lastChild.children].map(_ => _.innerText))",
        )
        wanted = diff(load(nights / f"night-{before}"), load(nights / f"night-{after}"))
        assert shown == [
            [each.id, f"{TONES[each.kind][1]} {each.kind.label} {each.description}"]
            for each in wanted.changes
        ]
        environment = page.locator("#view table.list tbody tr").all_inner_texts()
        assert [row.split("\t") for row in environment] == [
            [each.name, each.before, each.after] for each in wanted.environment
        ]
        assert page.locator("#view .worries li").all_inner_texts() == wanted.remarks
        seen |= {change.kind for change in wanted.changes}
    assert {ChangeKind.NEWLY_FAILING, ChangeKind.DISAPPEARED, ChangeKind.TIME_UP} <= seen
    assert any(change.followers for change in wanted.changes)


@pytest.mark.nightly
def test_two_runs_that_the_site_does_not_compare_name_the_command(
    opened: Callable[..., Any], index: str, nights: Path
) -> None:
    page = opened(f"{index}#/compare?b=night-1")
    chosen = [
        page.locator(f".pickers select >> nth={at} >> option").all_inner_texts() for at in (0, 1)
    ]
    assert [[name.split()[-1] for name in names] for names in chosen] == [
        ["night-4", "night-0"],
        ["night-4", "night-3", "night-2", "night-1", "night-0"],
    ]
    follow(page, "#/compare?a=night-3&b=night-1")
    message = page.text_content("[role=alert]")
    assert f"conform diff {nights / 'night-3'} {nights / 'night-1'}" in message


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
    same = {"decibels": text.decibels, "boundUse": text.bound_use,
            "seconds": text.seconds}  # fmt: skip
    for name, function in same.items():
        assert spelled(name, [*values, *odd]) == [
            function(value) for value in [*values, *odd.values()]
        ]


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
