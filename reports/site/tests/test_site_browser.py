"""The dashboard in a real browser, opened from disk: features for readers, and safety."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from harness.record.cell import LimitationRef, Status
from harness.record.folder import load
from harness.record.severity import Severity
from reports import facts, site, summary, text
from reports.columns import columns
from reports.outcome import CellOutcome
from reports.site.tests import browser as chromium
from reports.site.tests.browser import follow, hash_of, is_wide
from reports.summary import RunSummary
from reports.tests.runs import cell, write

pytestmark = chromium.needed

VIEWS = ["", "#/cells", "#/compare", "#/changes", "#/limitations"]


# Texts whose contrast with their background is below the WCAG 2 minimum (AA).
_FAINT = """() => {
  const linear = (value) => value <= 0.04 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const channel = (value) => linear(value / 255);
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    const color = getComputedStyle(node).backgroundColor;
    return color === "rgba(0, 0, 0, 0)" ? ground(node.parentElement) : color;
  };
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const texts = ".sq:not(.off), .quiet, .name, h1, .verdict b, .swatch, nav a, .chip, .detail b";
  return [...document.querySelectorAll(texts)]
    .filter((node) => node.offsetParent && node.textContent)
    .map((node) => [node, ratio(light(getComputedStyle(node).color), light(ground(node)))])
    .filter(([, value]) => value < 4.5)
    .map(([node, value]) => `${node.className} ${node.textContent}: ${value.toFixed(2)}`);
}"""


def test_the_overview_shows_the_newest_verdict_first_and_outcomes_separately(
    opened: Callable[..., Any], index: str, nights: Path
) -> None:
    page = opened(index)
    newest = load(nights / "night-4")
    total = RunSummary.from_run(newest).overall
    assert page.text_content("h1").strip().endswith("Failed, incomplete")
    assert "night-4" in page.text_content(".eyebrow")
    for outcome in CellOutcome:
        if total.counts[outcome]:
            legend = page.text_content(f".hero a[href*='status={outcome.value}']")
            assert f"{total.counts[outcome]:,}" in legend
            assert outcome.symbol in legend
    assert page.locator("#trend svg[role=img] title").count() >= 3
    assert page.locator("#trend details table").count() == 3
    assert page.locator("#runs tbody tr").count() == 5
    page.click(".hero a[href*='status=failed']")
    page.wait_for_selector(".virtual .case")
    assert f"{total.counts[CellOutcome.FAILED]:,} of" in page.text_content("#matching")


def test_search_and_filters_live_in_the_address_and_a_link_shows_the_same(
    opened: Callable[..., Any], index: str
) -> None:
    page = opened(f"{index}#/cells")
    page.fill("#search", "2d int8")
    page.click(".menu[data-key=status] summary")
    page.check(".menu[data-key=status] input[value=passed]")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.click(".menu[data-key=target] summary")
    page.check(".menu[data-key=target] input[value='xnnpack:int8']")
    page.select_option(".picker select >> nth=1", "suite")
    said = page.text_content("#matching")
    assert " of " in said
    assert "q=2d+int8" in hash_of(page)
    assert "status=passed" in hash_of(page)
    assert "group=suite" in hash_of(page)
    rows = page.locator(".virtual .case .name").all_text_contents()
    assert rows
    assert all("2d" in row for row in rows)
    again = opened(index + hash_of(page))
    again.wait_for_selector(".virtual .case")
    assert again.text_content("#matching") == said
    assert again.locator(".virtual .case .name").all_text_contents() == rows
    assert again.input_value("#search") == "2d int8"
    again.click("#clear")
    assert hash_of(again) == "#/cells?group=suite"


def test_cells_and_changes_are_sorted_by_severity_and_show_it(
    opened: Callable[..., Any], tmp_path: Path
) -> None:
    # In no order; one record has an older schema, without this field.
    found = [Severity.MINOR, Severity.CRITICAL, None, Severity.NEGLIGIBLE, Severity.MAJOR]
    names = [f"add/{number}" for number in range(len(found))]
    wrong = [
        cell(name, status=Status.MISMATCH, stage="compare", error="off", severity=severity)
        for name, severity in zip(names, found, strict=True)
    ]
    known = LimitationRef(reason="known")
    gap = cell("add/gap", status=Status.XFAILED, limitation=known, severity=Severity.MAJOR)
    before = [cell(name) for name in names] + [cell("add/gap")]
    write(tmp_path / "runs" / "a", before, started="2026-01-01T00:00:00+00:00")
    write(
        tmp_path / "runs" / "b", [*wrong, gap], started="2026-01-02T00:00:00+00:00", exit_status=1
    )
    index = site.write(tmp_path / "site", [tmp_path / "runs"]).index.as_uri()
    worst_first = ["add/1", "add/2", "add/4", "add/0", "add/3"]
    page = opened(f"{index}#/cells?group=none&order=worst&status=mismatch")
    page.wait_for_selector(".virtual .case")
    rows = page.locator(".virtual .case .name").all_text_contents()
    assert rows[0] in ("add/1", "add/2")
    assert rows[2:] == worst_first[2:]
    titles = {each.get_attribute("title") for each in page.locator(".virtual a.o-mismatch").all()}
    assert "add/1@xnnpack:fp32: mismatch, critical" in titles
    assert "add/2@xnnpack:fp32: mismatch" in titles
    follow(page, "#/compare")
    page.wait_for_selector(".change")
    shown = [each.partition("@")[0] for each in page.locator(".change a").all_text_contents()]
    assert shown[:5] == worst_first
    assert "→ mismatch, critical" in page.text_content(".change .detail")
    follow(page, f"#/cell?id={quote('add/gap@xnnpack:fp32', safe='')}")
    assert "xfailed, major" in page.text_content(".sheet .state")
    follow(page, "#/")
    heads = [" ".join(each.split()) for each in page.locator("#overview h3").all_text_contents()]
    wanted = ["Mismatch, critical", "Mismatch in", "Mismatch, major", "Mismatch, minor"]
    assert [head.startswith(words) for head, words in zip(heads, wanted, strict=False)] == [
        True
    ] * 4


def test_drilling_down_to_a_cell_and_back_keeps_filter_place_and_focus(
    opened: Callable[..., Any], index: str, nights: Path
) -> None:
    page = opened(f"{index}#/cells?status=failed")
    square = page.locator(".virtual .case a.o-failed:not(.off)").first
    name = square.get_attribute("title").rpartition(": ")[0]
    square.click()
    page.wait_for_selector(".cellname")
    record = load(nights / "night-4").cell(name)
    assert page.text_content("h1:visible") == name
    assert record.error in page.text_content(".sheet .error")
    assert page.text_content(".sheet > .repro code") == record.repro
    shown = page.text_content(".times")
    for stage in facts.stages(record):
        assert "".join(stage) in shown
    assert page.locator(".trace").count() == (1 if record.traceback else 0)
    assert page.locator("#history .strip li").count() == 5
    page.go_back()
    page.wait_for_selector(".virtual .case")
    assert hash_of(page) == "#/cells?status=failed"
    focused = page.evaluate("document.activeElement.title")
    assert focused.startswith(name)
    page.go_forward()
    page.wait_for_selector(".cellname")
    page.click(".strip.named a >> nth=0")
    page.wait_for_selector(".cellname")
    page.keyboard.press("Escape")
    page.wait_for_selector(".virtual .case")
    assert hash_of(page) == "#/cells?status=failed"


def test_a_cell_shows_numerics_with_bounds_units_and_trends(
    opened: Callable[..., Any], index: str, nights: Path
) -> None:
    run = load(nights / "night-4")
    record = next(item for item in run.cells if item.numerics and item.delegation.delegates)
    page = opened(f"{index}#/cell?id={quote(record.id)}")
    table = page.text_content(".numbers")
    worst = summary.worst_output(record)
    assert worst is not None
    for said in (text.bound_use(worst.bound_used), text.decibels(worst.sqnr_db)):
        assert said in table
    assert "Delegated to" in page.text_content(".tree")
    assert text.seconds(record.seconds) in page.text_content(".times .total >> nth=1")
    assert text.memory(record.peak_memory) in page.text_content(".times .total >> nth=2")
    assert page.locator("#history figure").count() == 3
    assert page.locator("#history figure details table tbody tr").count() >= 6
    page.select_option(".headline select", "night-0")
    page.wait_for_function("location.hash.includes('night-0')")
    page.wait_for_selector("text=has full records only of the newest runs")


@pytest.mark.nightly
def test_the_whole_path_works_by_keyboard(opened: Callable[..., Any], index: str) -> None:
    page = opened(index)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("/")
    page.wait_for_selector("#search")
    page.keyboard.press("/")
    page.keyboard.type("add")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('.grid') !== null")
    assert page.locator(".grid [tabindex='0']").count() == 1
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.matches('a.sq')")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    page.wait_for_selector(".cellname")
    assert page.evaluate("document.activeElement.tagName") == "H1"
    page.keyboard.press("Escape")
    page.wait_for_selector(".virtual .case")
    assert page.input_value("#search") == "add"


@pytest.mark.nightly
def test_arrow_keys_reach_the_last_row_of_a_table_that_is_drawn_in_part(
    opened: Callable[..., Any], index: str
) -> None:
    page = opened(f"{index}#/cells?group=none", viewport={"width": 1200, "height": 500})
    assert page.locator(".virtual tbody tr").count() < 50
    rows = int(page.get_attribute(".virtual table", "aria-rowcount"))
    page.focus(".grid [tabindex='0']")
    page.keyboard.press("Control+End")
    assert page.evaluate("document.activeElement.closest('tr').ariaRowIndex") == str(rows)
    assert page.evaluate("""() => {
      const cell = document.activeElement.getBoundingClientRect();
      const box = document.querySelector(".grid").getBoundingClientRect();
      return cell.top >= box.top && cell.bottom <= box.bottom + 1;
    }""")
    page.keyboard.press("PageUp")
    at = page.evaluate("document.activeElement.closest('tr').ariaRowIndex")
    assert at == str(rows - 10)


@pytest.mark.nightly
def test_two_runs_can_be_chosen_filtered_and_linked(opened: Callable[..., Any], index: str) -> None:
    page = opened(f"{index}#/compare")
    page.select_option(".pickers select >> nth=0", "night-0")
    page.wait_for_function("location.hash.includes('a=night-0')")
    page.wait_for_selector("#view th >> text=Setting")
    assert "torch" in page.text_content("#view table")
    chip = page.locator(".chip[data-kind=numerics-worse]")
    number = chip.locator("b").text_content()
    chip.click()
    assert chip.get_attribute("aria-pressed") == "true"
    assert page.locator(".changegroup h2").all_text_contents() == [f"numerics worse {number}"]
    again = opened(index + hash_of(page))
    again.wait_for_selector(".changegroup h2")
    assert again.locator(".changegroup h2").all_text_contents() == [f"numerics worse {number}"]
    again.click("text=Swap")
    again.wait_for_function("location.hash.includes('b=night-0')")
    again.go_back()
    again.wait_for_function("location.hash.includes('a=night-0')")


@pytest.mark.one_of(2)
@pytest.mark.one_of(4)
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_fits_a_phone_in_both_themes(
    view: str, opened: Callable[..., Any], index: str
) -> None:
    page = opened(index + view, viewport={"width": 360, "height": 740})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert not is_wide(page), scheme
    assert page.locator("h1:visible").count() == 1


def test_a_cell_fits_a_phone(opened: Callable[..., Any], index: str, nights: Path) -> None:
    record = next(item for item in load(nights / "night-4").cells if item.numerics)
    page = opened(f"{index}#/cell?id={quote(record.id)}", viewport={"width": 360, "height": 740})
    assert page.locator(".numbers").count() == 1
    assert not is_wide(page)


@pytest.mark.nightly
def test_the_theme_follows_the_system_until_it_is_chosen(
    opened: Callable[..., Any], index: str
) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page = opened(index, color_scheme="dark")
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    assert light != dark
    page.click("#theme")
    page.click("#theme")
    assert page.get_attribute("#theme", "aria-label") == "Theme: dark. Switch to auto"
    assert page.evaluate(ground) == dark
    page.reload()
    page.wait_for_function("document.body.dataset.ready")
    assert page.evaluate(ground) == dark
    page.click("#theme")
    assert page.evaluate(ground) == light


def test_text_can_be_read_in_both_themes(opened: Callable[..., Any], index: str) -> None:
    for scheme in ("light", "dark"):
        page = opened(f"{index}#/cells", color_scheme=scheme)
        page.click("#expand")
        assert page.evaluate(_FAINT) == [], scheme
        follow(page, "#/compare")
        assert page.evaluate(_FAINT) == [], scheme


def test_limitations_and_changes_name_causes_cells_and_runs(
    opened: Callable[..., Any], index: str, nights: Path
) -> None:
    page = opened(f"{index}#/limitations")
    gaps = RunSummary.from_run(load(nights / "night-4")).limitation_groups
    assert page.text_content("#matching") == f"{len(gaps)} of {text.count(len(gaps), 'cause')}"
    assert page.locator(".gap .reason").first.text_content() == gaps[0].reason
    page.click(".gap summary >> nth=0")
    page.wait_for_selector(".gap >> nth=0 >> li a")  # the list is made when it opens
    assert page.locator(".gap >> nth=0").locator("li a").count() == min(len(gaps[0].rows), 30)
    page.fill("#search", "no such cause")
    page.wait_for_selector("text=No cause matches the filter.")
    follow(page, "#/changes")
    assert page.locator("#bad tbody tr").count() > 0
    assert page.locator("#flaky tbody tr").count() > 0
    page.click("#flaky a[href*=compare] >> nth=0")
    page.wait_for_selector("#view h2 >> text=Environment")


def test_an_address_that_names_a_missing_item_is_reported(
    opened: Callable[..., Any], index: str
) -> None:
    page = opened(f"{index}#/cell?id=<b>no</b>@a:b")
    assert "This site has no cell <b>no</b>@a:b" in page.text_content("[role=alert]")
    follow(page, "#/cells?run=nowhere")
    assert "This site has no run nowhere" in page.text_content("[role=alert]")
    follow(page, "#/no-such-view")
    assert page.locator("#overview h1:visible").count() == 1


@pytest.mark.nightly
def test_a_missing_data_file_is_reported_and_found_again(
    opened: Callable[..., Any], nights: Path, tmp_path: Path
) -> None:
    made = site.write(tmp_path / "site", [nights])
    page = opened(made.index.as_uri())
    file = next(made.index.parent.glob("data-*/cells.js"))
    away = file.rename(tmp_path / "away.js")
    follow(page, "#/cells")
    assert "reload the page" in page.text_content("[role=alert]")
    away.rename(file)
    page.problems.clear()
    follow(page, "#/limitations")
    assert page.locator(".gap").count() > 0


@pytest.mark.nightly
def test_charts_have_ticks_that_tell_and_a_red_cell_its_issue(
    opened: Callable[..., Any], nights: Path, index: str
) -> None:
    red = next(
        cell["case"] + "@" + cell["target"]
        for cell in map(json.loads, (nights / "night-4" / "cells.jsonl").read_text().splitlines())
        if cell["status"] == "mismatch"
    )
    page = opened(f"{index}#/cell?id={quote(red)}")
    page.locator(".issue summary").click()
    assert page.locator(".issue-text").inner_text().startswith(f"### {red}: mismatch")
    for chart in page.locator("figure.chart").all():
        texts = chart.locator("svg text.tick").all_text_contents()
        assert len([text for text in texts if not re.fullmatch(r"[\d-]{10}", text)]) >= 3, texts
    assert page.locator("figure.chart").count() == 3


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.13, 0.95), (59.1, 60.02), (0, 457), (-3, 12), (1e-9, 3e-9)]
)
def test_an_axis_has_three_ticks_or_more(
    opened: Callable[..., Any], index: str, low: float, high: float
) -> None:
    page = opened(index)
    made = page.evaluate(f"ticks({low}, {high})")
    assert 3 <= len(made) <= 8
    assert all(low - 1e-12 <= value <= high + 1e-12 for value in made)
    if low > 0:
        assert 3 <= len(page.evaluate(f"logTicks({low}, {high})")) <= 8


@pytest.mark.nightly
def test_repeated_days_have_times_and_targets_are_in_matrix_order(
    opened: Callable[..., Any], index: str
) -> None:
    page = opened(index)
    runs = "[{day: '2026-01-01T02:00', key: 'a'}, {day: '2026-01-01T14:30', key: 'b'}]"
    assert page.evaluate(f"daysOf({runs})") == ["01-01 02:00", "01-01 14:30"]
    assert page.evaluate("daysOf([{day: '2026-01-01T02:00', key: 'a'}, {day: '', key: 'b'}])") == [
        "2026-01-01",
        "b",
    ]
    names = ["tosa:fp", "xnnpack:fp32+cse", "mlx:fp32", "xnnpack:int8", "xnnpack:fp32"]
    ordered = page.evaluate(
        f"inOrder({names}, (name) => name, {{targets: ['xnnpack:fp32', 'tosa:fp', 'mlx:fp32']}})"
    )
    assert ordered == ["xnnpack:fp32", "xnnpack:fp32+cse", "xnnpack:int8", "tosa:fp", "mlx:fp32"]


@pytest.mark.nightly
def test_variations_of_one_recipe_are_one_column(opened: Callable[..., Any], index: str) -> None:
    names = ["tosa:fp", "tosa:fp+a", "tosa:fp+a+b", "tosa:fp-c", "tosa:int", "tosa:int+a", "mlx:x"]
    given = [{"name": name} for name in names]
    made = opened(index).evaluate("(given) => folded(given)", given)
    found = [(column["name"], [each["name"] for each in column["members"]]) for column in made]
    assert sorted(found) == sorted((each.name, list(each.targets)) for each in columns(names))
