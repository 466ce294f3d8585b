"""The HTML page: nothing of a record acts, nothing is fetched, everything is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.record.cell import MODEL, Delegation, LimitationRef, Status
from harness.record.program_data import Divergence
from harness.record.run import BackendState, Run
from reports.columns import Column
from reports.render import html, views
from reports.summary import RunSummary
from reports.tests.markup import Page
from reports.tests.runs import cell, large, numerics, write

EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}</script><!--"


def _evil_run(path: Path) -> Run:
    bad = cell(
        EVIL,
        f"{EVIL}:fp32",
        status=Status.FAILED,
        stage=EVIL,
        error=EVIL,
        traceback=EVIL,
        suite=EVIL,
        tags=[EVIL, MODEL],
        first_divergence=Divergence(node=EVIL, op=EVIL, source=EVIL, note=EVIL),
        worker=EVIL,
        runtime=EVIL,
        limitation=LimitationRef(reason=EVIL, link="javascript:alert(3)"),
        numerics=[numerics(problem=EVIL, dtype=EVIL)],
        delegation=Delegation(
            delegates=1,
            delegated_nodes=1,
            delegated_ops={EVIL: 1},
            undelegated_ops={EVIL: 1},
            reasons={EVIL: {EVIL: 1}},
        ),
        model_frame=EVIL,
        command=EVIL,
        stages={EVIL: 1.0},
        memory={EVIL: 2**30},
    )
    return write(
        path,
        [bad],
        expected=[bad.id, f"{EVIL}@{EVIL}"],
        problems=[EVIL],
        selection=EVIL,
        backends={EVIL: BackendState(available=False, reason=EVIL)},
    )


def test_html_has_no_tag_attribute_or_script_from_the_record(tmp_path: Path) -> None:
    page = Page(html.render(_evil_run(tmp_path / "evil")))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 2
    assert "img" not in tags
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        assert not (attributes.get("href") or "").startswith("javascript:")
    record = json.loads(page.data)["cells"][0]
    assert record["error"] == EVIL
    assert "href" not in record


def test_html_makes_no_requests_and_allows_only_its_own_script(tmp_path: Path) -> None:
    source = html.render(large(tmp_path / "r", cases=32))
    page = Page(source)
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        if tag == "link":
            assert attributes["href"] == "data:,"
    policy = next(a["content"] for _, a in page.tags if "http-equiv" in a)
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "@import" not in source
    assert "url(" not in source


def test_html_carries_every_cell_once_and_links_squares_to_it(tmp_path: Path) -> None:
    run = large(tmp_path / "r", cases=40)
    source = html.render(run)
    data = json.loads(Page(source).data)
    assert sorted(item["id"] for item in data["cells"]) == sorted(run.info.expected)
    squares = re.findall(r'class="sq o-(\w+)" data-at="(\d+)"', source)
    assert len(squares) == len(run.info.expected)
    assert all(data["cells"][int(at)]["outcome"] == outcome for outcome, at in squares)


@pytest.mark.nightly
def test_html_stays_small_even_when_everything_fails_at_length(tmp_path: Path) -> None:
    bad = [
        cell(f"a{n // 10}/x", f"t{n % 10}:r", status=Status.FAILED, error=f"E{n} " + "x" * 900,
             traceback=f"{n}" + "frame\n" * 4_000)
        for n in range(2_000)
    ]  # fmt: skip
    assert len(html.render(write(tmp_path / "bad", bad)).encode()) < 6_000_000
    assert len(html.render(large(tmp_path / "usual", cases=200)).encode()) < 2_000_000


def test_frequent_causes_are_folded_and_rare_ones_open(tmp_path: Path) -> None:
    many = [
        cell(f"op{n}", status=Status.FAILED, stage="run", error=f"no kernel {n}") for n in range(24)
    ]
    rare = cell("rare", status=Status.FAILED, stage="lower", error="refused")
    page = html.render(write(tmp_path / "r", [*many, rare]))
    cards = re.findall(r'<details class="card"[^>]*>\s*<summary><span class="mono">([^<]+)', page)
    opened = re.findall(
        r'<details class="card"[^>]* open>\s*<summary><span class="mono">([^<]+)', page
    )
    assert len(cards) == 4
    assert opened == ["rare@xnnpack:fp32"]
    assert "21 more cells" in page


def test_neutral_cells_are_not_part_of_a_bar_of_the_matrix(tmp_path: Path) -> None:
    out = {"status": Status.UNSUPPORTED, "error": "no", "runtime": "none", "numerics": []}
    nothing = {"delegation": Delegation()}
    run = write(tmp_path / "r", [cell("add/a"), cell("add/b", **out, **nothing)])
    rows = RunSummary.from_run(run).rows
    [group] = views.matrix(rows, [Column("xnnpack:fp32", ("xnnpack:fp32",))])
    [square] = group["summary"]
    assert square["text"] == "1/1"
    assert [part["outcome"].value for part in square["segments"]] == ["passed"]
    assert "1 unsupported" in square["words"]
