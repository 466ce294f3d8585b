"""The files of the dashboard: their places, their contents, and cleanup after a failure."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness import cli
from harness.errors import RunUnreadable, RunUnwritable, UsageError
from harness.record.folder import CELLS_FILE, RUN_FILE, load
from reports import site
from reports.comparison.diff import ChangeKind, diff
from reports.outcome import CellOutcome
from reports.site.columns import ABSENT, LETTERS
from reports.site.comparisons import select_pairs
from reports.site.folder import INDEX, MARKER, open_folder
from reports.site.pack import number, script
from reports.site.tests.nights import EVIL, NAMES, hostile, store
from reports.summary import RunSummary
from reports.tests.markup import Page
from reports.tests.runs import cell, large, write


def _data(index: Path) -> Path:
    found = re.search(r'data-folder="(data-[0-9a-f]{12})"', index.read_text(encoding="utf-8"))
    assert found is not None
    return index.parent / found[1]


def _value(file: Path) -> Any:
    """The value that a browser would parse from a data file."""
    content = file.read_text(encoding="utf-8")
    body = re.fullmatch(r"conform\.put\('[\w/]+','(.*)'\);\n", content)
    assert body is not None
    return json.loads(re.sub(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|(.))", _unescaped, body[1]))


def _unescaped(found: re.Match[str]) -> str:
    return found[3] or chr(int(found[1] or found[2], 16))


@pytest.mark.parametrize(
    "text", [EVIL, "\\", "'", "\\'", "</script>", "\u2028\u2029", "\\u2028", "é"]
)
def test_a_data_file_gives_back_any_text_and_has_nothing_that_ends_a_script(
    text: str, tmp_path: Path
) -> None:
    made = script("x", {"text": text, text: [1, None]})
    (tmp_path / "x.js").write_bytes(made)
    assert _value(tmp_path / "x.js") == {"text": text, text: [1, None]}
    assert b"<" not in made
    assert "\u2028".encode() not in made
    assert made.count(b"\n") == 1


def test_numbers_that_json_does_not_have_are_spelled() -> None:
    values = [0.1, 1 / 3, float("inf"), float("-inf"), float("nan"), None]
    assert [number(value) for value in values] == [0.1, 0.333333, "inf", "-inf", "nan", None]


def test_every_run_counts_each_outcome_separately_and_every_cell_once(tmp_path: Path) -> None:
    folder = store(tmp_path / "runs", nights=3, cases=12)
    made = site.write(tmp_path / "site", [folder])
    data = _data(made.index)
    main, cells = _value(data / "main.js"), _value(data / "cells.js")
    assert [run["key"] for run in main["runs"]] == ["night-2", "night-1", "night-0"]
    for at, entry in enumerate(main["runs"]):
        run = load(folder / entry["key"])
        total = RunSummary.from_run(run).overall
        assert entry["counts"] == [total.counts[outcome] for outcome in CellOutcome]
        assert (entry["passed"], entry["rated"], entry["rate"]) == (
            total.passed, total.rated, total.pass_rate)  # fmt: skip
        outcomes = _value(data / f"r{at}.js")["outcomes"]
        cases = [cells["cases"][case] for case in cells["case"]]
        names = [
            f"{case}@{cells['targets'][target]}"
            for case, target in zip(cases, cells["target"], strict=True)
        ]
        known = zip(names, outcomes, strict=False)
        said = {name: letter for name, letter in known if letter != ABSENT}
        assert said == {row.id: LETTERS[row.outcome] for row in RunSummary.from_run(run).rows}


def test_all_cells_of_new_runs_and_red_cells_of_old_runs_have_details(
    tmp_path: Path,
) -> None:
    folder = store(tmp_path / "runs", nights=3, cases=12)
    data = _data(site.write(tmp_path / "site", [folder], full=1).index)
    newest, old = _value(data / "r0.js"), _value(data / "r1.js")
    assert newest["detailed"] is None
    red = {LETTERS[outcome] for outcome in CellOutcome if outcome.is_red}
    assert old["detailed"] == [at for at, letter in enumerate(old["outcomes"]) if letter in red]
    kept = [at for file in (data / "r1").iterdir() for at, _ in _value(file)["cells"]]
    assert sorted(kept) == old["detailed"]


def test_history_of_a_cell_has_a_letter_a_run_and_numbers_where_it_was(tmp_path: Path) -> None:
    for night, used in enumerate((0.25, None, 0.75)):
        cells = [cell("a/x")] + ([] if used is None else [cell("b/y", seconds=used)])
        started = f"2026-01-0{night + 1}T00:00:00+00:00"
        write(tmp_path / "runs" / f"n{night}", cells, started=started)
    data = _data(site.write(tmp_path / "site", [tmp_path / "runs"]).index)
    past = _value(data / "h" / "0.js")[1]
    assert past["outcomes"] == "a.a"
    assert past["seconds"] == [0.75, 0.25]
    assert past["used"] == [0.5, 0.5]


def test_no_name_leaves_the_folder_and_no_two_collide(tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    folder = hostile(tmp_path / "runs")
    made = site.write(tmp_path / "site", [folder])
    files = [path.relative_to(tmp_path / "site") for path in made.index.parent.rglob("*")]
    own = re.compile(
        r"index\.html|conform-site\.json|data-\w{12}(/(\w+\.(js|css)|h|[dr]\d+|h/\d+\.js|[dr]\d+/\d+\.js))?"
    )
    assert all(own.fullmatch(str(path)) for path in files), files
    outside = {path for path in tmp_path.rglob("*") if not path.is_relative_to(made.index.parent)}
    assert all(path.is_relative_to(folder) for path in outside - before if path != folder)
    cells = _value(_data(made.index) / "cells.js")
    assert set(NAMES) <= set(cells["cases"])


def test_the_page_has_no_tag_or_script_of_a_record(tmp_path: Path) -> None:
    made = site.write(tmp_path / "site", [hostile(tmp_path / "runs")])
    page = Page(made.index.read_text(encoding="utf-8"))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 3
    assert "img" not in tags
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        assert not (attributes.get("href") or "").startswith("javascript:")


def test_the_page_makes_no_requests(tmp_path: Path) -> None:
    made = site.write(tmp_path / "site", [store(tmp_path / "runs", nights=2, cases=5)])
    page = made.index.read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert all(link.startswith("data-") for link in re.findall(r'src="([^"]*)"', page))
    data = _data(made.index)
    shown = (data / "app.js").read_text() + (data / "app.css").read_text()
    for word in ("fetch(", "XMLHttpRequest", "import(", "@import", "url(", "innerHTML", "eval("):
        assert word not in shown, word


@pytest.mark.parametrize("kind", ["file", "other files", "a run", "a marker that is not ours"])
def test_a_folder_that_is_not_a_site_is_refused_and_untouched(kind: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write(runs / "a", [cell()])
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        name = {"other files": "thesis.txt", "a run": RUN_FILE}.get(kind, MARKER)
        (out / name).write_text('{"site": 1}')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="choose another"):
        site.write(out, [runs])
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_site_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs", tmp_path / "site"
    write(runs / "a", [cell()])
    old = _data(site.write(out, [runs]).index)
    (out / "CNAME").write_text("example.com")
    (out / "data-000000000000").symlink_to(runs)
    new = _data(site.write(out, [runs]).index)
    assert old != new
    assert not old.exists()
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [MARKER, INDEX, "CNAME", "data-000000000000", new.name]
    )
    assert (runs / "a" / RUN_FILE).exists()


def test_a_writer_that_fails_leaves_the_old_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, out = tmp_path / "runs", tmp_path / "site"
    write(runs / "a", [cell()])
    page = site.write(out, [runs]).index.read_text(encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reports.site.build.write_histories", full)
    with pytest.raises(RunUnwritable, match=r"No space left.*the old site is unchanged"):
        site.write(out, [runs])
    assert (out / INDEX).read_text(encoding="utf-8") == page
    assert len([path for path in out.iterdir() if path.is_dir()]) == 1


def test_a_writer_that_is_killed_leaves_the_old_site_and_the_next_one_cleans_up(
    tmp_path: Path,
) -> None:
    runs, out = tmp_path / "runs", tmp_path / "site"
    write(runs / "a", [cell()])
    page = site.write(out, [runs]).index.read_text(encoding="utf-8")
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom reports import site\n"
        "from reports.site import build\n"
        "build.write_histories = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        "site.write(Path(sys.argv[1]), [Path(sys.argv[2])])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(out), str(runs)], check=False,
                          env=os.environ | {"PYTHONPATH": os.getcwd()})  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert (out / INDEX).read_text(encoding="utf-8") == page
    assert _data(out / INDEX).is_dir()
    assert len([path for path in out.iterdir() if path.is_dir()]) == 2
    site.write(out, [runs])
    assert len([path for path in out.iterdir() if path.is_dir()]) == 1


def test_two_writers_do_not_write_concurrently(tmp_path: Path) -> None:
    write(tmp_path / "runs" / "a", [cell()])
    with (
        open_folder(tmp_path / "site"),
        pytest.raises(UsageError, match="another process is writing"),
    ):
        site.write(tmp_path / "site", [tmp_path / "runs"])


def test_runs_are_found_by_folder_and_name_once_each_newest_first(tmp_path: Path) -> None:
    for name, day in (("b", 2), ("a", 3), ("c", 1)):
        write(tmp_path / "runs" / name, [cell()], started=f"2026-01-0{day}T00:00:00+00:00")
    write(tmp_path / "elsewhere" / "a", [cell()], started="2026-01-04T00:00:00+01:00")
    places = [tmp_path / "runs", tmp_path / "runs" / "b", tmp_path / "elsewhere" / "a"]
    data = _data(site.write(tmp_path / "site", places).index)
    assert [run["key"] for run in _value(data / "main.js")["runs"]] == ["a", "a~2", "b", "c"]


def test_omitted_parts_are_named(tmp_path: Path) -> None:
    for day in range(1, 5):
        write(tmp_path / "runs" / f"n{day}", [cell()], started=f"2026-01-0{day}T00:00:00+00:00")
    (tmp_path / "runs" / "n1" / RUN_FILE).write_text("{")
    made = site.write(tmp_path / "site", [tmp_path / "runs"], last=2)
    assert made.runs == 2
    assert any("n1: run.json cannot be read" in line for line in made.remarks)
    assert any("1 older run" in line for line in made.remarks)
    page = made.index.read_text(encoding="utf-8")
    assert "n1: run.json cannot be read" in page
    assert "1 older run" in page


def test_without_a_run_there_is_no_site(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with pytest.raises(RunUnreadable, match="no run in"):
        site.write(tmp_path / "site", [tmp_path / "runs"])
    with pytest.raises(RunUnreadable, match="is not a folder"):
        site.write(tmp_path / "site", [tmp_path / "nowhere"])
    write(tmp_path / "bad", [cell()])
    (tmp_path / "bad" / RUN_FILE).write_text("[]")
    with pytest.raises(RunUnreadable, match="cannot be read"):
        site.write(tmp_path / "site", [tmp_path / "bad"])
    assert not (tmp_path / "site").exists()


def test_a_killed_run_is_shown_as_incomplete(tmp_path: Path) -> None:
    run = write(
        tmp_path / "runs" / "a", [cell("a/x")], expected=["a/x@xnnpack:fp32", "b@t:r"], end=False
    )
    with (run.path / CELLS_FILE).open("a") as file:
        file.write("{cut off")
    data = _data(site.write(tmp_path / "site", [tmp_path / "runs"]).index)
    entry = _value(data / "main.js")["runs"][0]
    assert (entry["headline"], entry["tone"]) == ("Incomplete", "warn")
    assert entry["counts"][list(CellOutcome).index(CellOutcome.NOT_RUN)] == 1
    assert any("incomplete" in line for line in _value(data / "r0.js")["concerns"])


def test_changes_need_a_folder_and_name_cells_and_runs(tmp_path: Path) -> None:
    folder = store(tmp_path / "runs", nights=6, cases=40)
    found = _value(_data(site.write(tmp_path / "site", [folder]).index) / "changes.js")
    assert found["bad"]
    assert found["flaky"]
    assert all(row["since"]["key"] for row in found["bad"])
    single = site.write(tmp_path / "one", [folder / "night-1"])
    found = _value(_data(single.index) / "changes.js")
    assert not found["bad"]
    assert "needs a folder of runs" in found["remarks"][0]


def test_pairs_are_each_run_with_its_predecessor_and_the_newest_and_linked_ones() -> None:
    assert select_pairs(1, []) == []
    pairs = select_pairs(4, [(3, 1), (2, 2)])
    assert pairs == [(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
    assert len(select_pairs(60, [])) == 59 + 59 + 58


def test_a_comparison_has_every_change_and_rows_link_only_pairs_that_exist(tmp_path: Path) -> None:
    folder = store(tmp_path / "runs", nights=6, cases=40)
    data = _data(site.write(tmp_path / "site", [folder]).index)
    pairs = _value(data / "main.js")["pairs"]
    files = {(int(file.parent.name[1:]), int(file.stem)) for file in data.glob("d*/*.js")}
    assert files == {tuple(pair) for pair in pairs}
    made = _value(data / "d4" / "0.js")
    wanted = diff(load(folder / "night-1"), load(folder / "night-5"))
    assert (made["compared"], made["remarks"]) == (wanted.compared, wanted.remarks)
    kinds, outcomes = list(ChangeKind), [*CellOutcome, None]
    assert [
        (kinds[kind], outcomes[before], outcomes[after], detail, made["errors"][error])
        for _, kind, before, after, detail, error in made["changes"]
    ] == [(each.kind, *each.outcomes, each.description, each.signature) for each in wanted.changes]
    cells = _value(data / "cells.js")
    named = [cells["cases"][cells["case"][at]] for at, *_ in made["changes"]]
    assert named == [each.cell.case for each in wanted.changes]
    changes = _value(data / "changes.js")
    linked = [row["pair"] for name in ("bad", "flaky", "steps") for row in changes[name]]
    assert any(linked)
    keys = [run["key"] for run in _value(data / "main.js")["runs"]]
    assert all([keys.index(key) for key in pair] in pairs for pair in linked if pair)


def test_one_run_is_enough(tmp_path: Path) -> None:
    run = large(tmp_path / "only", cases=5)
    made = site.write(tmp_path / "site", [run.path])
    assert (made.runs, made.cells) == (1, len(run.info.expected))
    assert made.size == sum(
        file.stat().st_size
        for file in made.index.parent.rglob("*")
        if file.name != MARKER and file.is_file()
    )


def test_the_command_prints_the_page_last_and_names_omitted_parts(tmp_path: Path) -> None:
    write(tmp_path / "runs" / "a", [cell()])
    write(tmp_path / "runs" / "b", [cell()])
    (tmp_path / "runs" / "b" / RUN_FILE).write_text("{")
    asked = ["dashboard", str(tmp_path / "site"), str(tmp_path / "runs")]
    done = CliRunner().invoke(cli.main, asked)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == str((tmp_path / "site" / INDEX).resolve())
    assert "conform: omitted: b: run.json cannot be read" in done.stderr


def test_the_command_refuses_in_one_line_with_exit_code_2(tmp_path: Path) -> None:
    write(tmp_path / "runs" / "a", [cell()])
    asked = ["dashboard", str(tmp_path), str(tmp_path / "runs")]
    done = CliRunner().invoke(cli.main, asked)
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert "is not a site written by conform" in done.stderr
