"""The dashboard in a real browser, opened from disk: what a reader can do, and what must not be."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from harness.run import load
from reports import site, summary, text
from reports.diff import Kind, diff
from reports.outcome import Outcome
from reports.tests import browser as chromium
from reports.tests.nights import EVIL, LONG, NAMES, hostile, store

_MISSING = chromium.missing()
pytestmark = pytest.mark.skipif(_MISSING is not None, reason=f"no browser: {_MISSING}")

VIEWS = ["", "#/cells", "#/compare", "#/changes", "#/limitations"]


# Texts whose contrast with their ground is below what WCAG 2 asks for (AA).
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.opened() as made:
        yield made


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store(tmp_path_factory.mktemp("store") / "runs", nights=5, cases=60)


@pytest.fixture(scope="module")
def index(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return site.write(tmp_path_factory.mktemp("made") / "site", [runs], full=2).index.as_uri()


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = hostile(tmp_path_factory.mktemp("evil") / "runs")
    return site.write(folder.parent / "site", [folder]).index.as_uri()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page; afterwards nothing may have been logged, asked of the network or raised."""
    contexts, problems = [], []

    def open_page(address: str, **options: Any) -> Any:
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 800}} | options))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda said: problems.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.on("request", lambda asked: asked.url.startswith(("file:", "data:"))
                or problems.append(f"asked for {asked.url}"))  # fmt: skip
        page.on("requestfailed", lambda asked: problems.append(f"failed: {asked.url}"))
        page.goto(address)
        page.wait_for_function("document.body.dataset.ready")
        page.problems = problems
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def _go(page: Any, address: str) -> None:
    """Follow a hash, and wait until its view is shown."""
    before = page.evaluate("document.body.dataset.ready")
    page.evaluate("hash => { location.hash = hash; }", address)
    page.wait_for_function("before => document.body.dataset.ready !== before", arg=before)


def _hash(page: Any) -> str:
    made: str = page.evaluate("location.hash")
    return made


def _wide(page: Any) -> bool:
    made: bool = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return made


def test_the_overview_says_the_newest_verdict_first_and_keeps_outcomes_apart(
    opened: Callable[..., Any], index: str, runs: Path
) -> None:
    page = opened(index)
    newest = load(runs / "night-4")
    total = summary.overall(newest)
    assert page.text_content("h1").strip().endswith("Failed, incomplete")
    assert "night-4" in page.text_content(".eyebrow")
    for outcome in Outcome:
        if total.counts[outcome]:
            legend = page.text_content(f".hero a[href*='status={outcome.value}']")
            assert f"{total.counts[outcome]:,}" in legend
            assert outcome.symbol in legend
    assert page.locator("#trend svg[role=img] title").count() >= 3
    assert page.locator("#trend details table").count() == 3
    assert page.locator("#runs tbody tr").count() == 5
    page.click(".hero a[href*='status=failed']")
    page.wait_for_selector(".virtual .case")
    assert f"{total.counts[Outcome.FAILED]:,} of" in page.text_content("#matching")


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
    assert "q=2d+int8" in _hash(page)
    assert "status=passed" in _hash(page)
    assert "group=suite" in _hash(page)
    rows = page.locator(".virtual .case .name").all_text_contents()
    assert rows
    assert all("2d" in row for row in rows)
    again = opened(index + _hash(page))
    again.wait_for_selector(".virtual .case")
    assert again.text_content("#matching") == said
    assert again.locator(".virtual .case .name").all_text_contents() == rows
    assert again.input_value("#search") == "2d int8"
    again.click("#clear")
    assert _hash(again) == "#/cells?group=suite"


def test_drilling_down_to_a_cell_and_back_keeps_filter_place_and_focus(
    opened: Callable[..., Any], index: str, runs: Path
) -> None:
    page = opened(f"{index}#/cells?status=failed")
    square = page.locator(".virtual .case a.o-failed:not(.off)").first
    name = square.get_attribute("title").rpartition(": ")[0]
    square.click()
    page.wait_for_selector(".cellname")
    record = load(runs / "night-4").cell(name)
    assert page.text_content("h1:visible") == name
    assert record.error in page.text_content(".sheet .error")
    assert page.text_content(".sheet > .repro code") == record.repro
    for stage in record.stages:
        assert stage in page.text_content(".times")
    assert page.locator(".trace").count() == (1 if record.traceback else 0)
    assert page.locator("#history .strip li").count() == 5
    page.go_back()
    page.wait_for_selector(".virtual .case")
    assert _hash(page) == "#/cells?status=failed"
    focused = page.evaluate("document.activeElement.title")
    assert focused.startswith(name)
    page.go_forward()
    page.wait_for_selector(".cellname")
    page.click(".strip.named a >> nth=0")
    page.wait_for_selector(".cellname")
    page.keyboard.press("Escape")
    page.wait_for_selector(".virtual .case")
    assert _hash(page) == "#/cells?status=failed"


def test_a_cell_shows_numerics_with_bounds_units_and_trends(
    opened: Callable[..., Any], index: str, runs: Path
) -> None:
    run = load(runs / "night-4")
    record = next(item for item in run.cells if item.numerics and item.delegation.delegates)
    page = opened(f"{index}#/cell?id={quote(record.id)}")
    table = page.text_content(".numbers")
    worst = summary.worst_output(record)
    assert worst is not None
    for said in (text.bound_use(worst.bound_used), text.decibels(worst.sqnr_db)):
        assert said in table
    assert "Taken by" in page.text_content(".tree")
    assert text.seconds(record.seconds) in page.text_content(".times .total >> nth=-1")
    assert page.locator("#history figure").count() == 3
    assert page.locator("#history figure details table tbody tr").count() >= 6
    page.select_option(".headline select", "night-0")
    page.wait_for_function("location.hash.includes('night-0')")
    page.wait_for_selector("text=keeps the full record of the newest runs")


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


def test_two_runs_compare_as_conform_diff_does(
    opened: Callable[..., Any], index: str, runs: Path
) -> None:
    page = opened(f"{index}#/compare")
    seen: set[Kind] = set()
    for before, after in [(0, 4), (4, 0), (1, 2), (2, 3), (2, 2)]:
        made = page.evaluate(
            """async ([a, b]) => {
              const [main, cells] = [await mainData(), await catalogue()];
              const side = (key) => sideOf(main.runs.find((run) => run.key === key));
              const { changes } = compareRuns(main, cells, await side(a), await side(b));
              return changes.map((change) => [main.kinds[change.kind].value, change.id, change.detail]);
            }""",
            [f"night-{before}", f"night-{after}"],
        )
        wanted = diff(load(runs / f"night-{before}"), load(runs / f"night-{after}"))
        assert sorted((kind, name) for kind, name, _ in made) == sorted(
            (change.kind.value, change.id) for change in wanted.changes
        )
        measured = {change.kind.value for change in wanted.changes if change.unit}
        measured.add(Kind.RUNTIME_CHANGED.value)
        assert sorted(tuple(item) for item in made if item[0] in measured) == sorted(
            (change.kind.value, change.id, change.detail)
            for change in wanted.changes
            if change.kind.value in measured
        )
        seen |= {change.kind for change in wanted.changes}
    assert {Kind.NUMERICS_WORSE, Kind.BOUND_UP, Kind.QUALITY_WORSE, Kind.BYTES_UP, Kind.TIME_UP,
            Kind.DELEGATION_LOST, Kind.DELEGATES_UP, Kind.RUNTIME_CHANGED, Kind.NEWLY_FAILING,
            Kind.FIXED, Kind.DISAPPEARED, Kind.APPEARED, Kind.NOT_RUN} <= seen  # fmt: skip


def test_any_two_runs_can_be_chosen_filtered_and_linked(
    opened: Callable[..., Any], index: str
) -> None:
    page = opened(f"{index}#/compare")
    page.select_option(".pickers select >> nth=0", "night-0")
    page.wait_for_function("location.hash.includes('a=night-0')")
    page.wait_for_selector("text=What differs")
    assert "torch" in page.text_content("#view table")
    chip = page.locator(".chip[data-kind=numerics-worse]")
    number = chip.locator("b").text_content()
    chip.click()
    assert chip.get_attribute("aria-pressed") == "true"
    assert page.locator(".changegroup h2").all_text_contents() == [f"numerics worse {number}"]
    again = opened(index + _hash(page))
    again.wait_for_selector(".changegroup h2")
    assert again.locator(".changegroup h2").all_text_contents() == [f"numerics worse {number}"]
    again.click("text=Swap")
    again.wait_for_function("location.hash.includes('b=night-0')")
    again.go_back()
    again.wait_for_function("location.hash.includes('a=night-0')")


def test_numbers_are_spelled_as_in_every_other_report(
    opened: Callable[..., Any], index: str
) -> None:
    choose = random.Random(0)
    values = [0.0, 1.0, 0.5, 0.9994, 0.9996, 1.004, 99.99, 100.5, 999_999.5, 59.94, 59.96, 3_600.0, 1e-5,
              9.9994e-4, 0.0994, 0.0996, 12345.678, 1e-7, 1e16]  # fmt: skip
    values += [choose.uniform(0, 10) * 10 ** choose.randint(-9, 9) for _ in range(300)]
    page = opened(index)

    def spelled(function: str, given: list[Any]) -> list[str]:
        made: list[str] = page.evaluate(
            f"values => values.map((value) => {function}(float(value)))", given
        )
        return made

    odd = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
    for name, function in {"measure": text.measure, "decibels": text.decibels,
                           "boundUse": text.bound_use, "seconds": text.seconds}.items():  # fmt: skip
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


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_fits_a_phone_in_both_themes(
    view: str, opened: Callable[..., Any], index: str
) -> None:
    page = opened(index + view, viewport={"width": 360, "height": 740})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert not _wide(page), scheme
    assert page.locator("h1:visible").count() == 1


def test_a_cell_fits_a_phone(opened: Callable[..., Any], index: str, runs: Path) -> None:
    record = next(item for item in load(runs / "night-4").cells if item.numerics)
    page = opened(f"{index}#/cell?id={quote(record.id)}", viewport={"width": 360, "height": 740})
    assert page.locator(".numbers").count() == 1
    assert not _wide(page)


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
        _go(page, "#/compare")
        assert page.evaluate(_FAINT) == [], scheme


def test_limitations_and_changes_name_causes_cells_and_runs(
    opened: Callable[..., Any], index: str, runs: Path
) -> None:
    page = opened(f"{index}#/limitations")
    gaps = summary.gaps(load(runs / "night-4"))
    assert page.text_content("#matching") == f"{len(gaps)} of {text.count(len(gaps), 'cause')}"
    assert page.locator(".gap .reason").first.text_content() == gaps[0].reason
    page.click(".gap summary >> nth=0")
    assert page.locator(".gap >> nth=0").locator("li a").count() == min(len(gaps[0].rows), 30)
    page.fill("#search", "no such cause")
    page.wait_for_selector("text=No cause matches.")
    _go(page, "#/changes")
    assert page.locator("#bad tbody tr").count() > 0
    assert page.locator("#flaky tbody tr").count() > 0
    page.click("#flaky a[href*=compare] >> nth=0")
    page.wait_for_selector("#view h2 >> text=Environment")


def test_texts_of_records_show_as_text_everywhere(opened: Callable[..., Any], evil: str) -> None:
    page = opened(evil)
    for view in [*VIEWS, "#/cells?group=none", "#/cells?group=suite", "#/compare?by=cause"]:
        if view:
            _go(page, view)
        assert page.locator("img, iframe, object, main script, #view script").count() == 0, view
        assert page.locator("[href^='javascript']").count() == 0, view
        assert not _wide(page), view
    assert "<script>alert(1)</script>" in page.text_content("#view")
    for name in [*NAMES, "a/b"]:
        target = f"{EVIL}:fp32" if name == "a/b" else "xnnpack:fp32"
        _go(page, f"#/cell?id={quote(f'{name}@{target}', safe='')}")
        shown = page.text_content("h1:visible")
        assert shown.endswith(f"@{text.line(target)}"), name
        assert text.line(name, 200).rstrip("…")[:190] in shown
        sheet = page.text_content(".sheet")
        assert ("not run" if name == NAMES[0] else "<script>alert(1)") in sheet
        assert page.locator("img, #view script, [href^='javascript']").count() == 0
        assert page.locator("#history .strip li").count() == 2
    _go(page, f"#/cell?id={quote(EVIL, safe='')}")
    assert page.locator(".sheet .o-not_run").count() == 1
    _go(page, "#/cell?id=ok/ok@xnnpack:fp32")
    assert page.get_attribute(".sheet a[rel]", "href") == "https://example.com/a?b=c&d=%22#x"
    _go(page, "#/cells?q=" + quote(LONG))
    assert page.text_content("#matching").startswith("1 of ")


def test_what_an_address_names_and_is_not_there_is_said(
    opened: Callable[..., Any], index: str
) -> None:
    page = opened(f"{index}#/cell?id=<b>no</b>@a:b")
    assert "There is no cell <b>no</b>@a:b" in page.text_content("[role=alert]")
    _go(page, "#/cells?run=nowhere")
    assert "There is no run nowhere" in page.text_content("[role=alert]")
    _go(page, "#/no-such-view")
    assert page.locator("#overview h1:visible").count() == 1


def test_a_data_file_that_is_gone_is_said_and_found_again(
    opened: Callable[..., Any], runs: Path, tmp_path: Path
) -> None:
    made = site.write(tmp_path / "site", [runs])
    page = opened(made.index.as_uri())
    file = next(made.index.parent.glob("data-*/cells.js"))
    away = file.rename(tmp_path / "away.js")
    _go(page, "#/cells")
    assert "reload the page" in page.text_content("[role=alert]")
    away.rename(file)
    page.problems.clear()
    _go(page, "#/limitations")
    assert page.locator(".gap").count() > 0
