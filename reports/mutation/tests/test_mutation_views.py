"""Scores count what cells notice; comparisons say what got worse."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from msgspec import structs
from rich.console import Console

from harness.coverage.mutation.mutant import (
    Campaign,
    CampaignInfo,
    FileMutants,
    Mutant,
    MutantOutcome,
    MutantResult,
    append_result,
    find_campaign_folder,
    open_campaign,
)
from harness.coverage.mutation.reviews import REVIEWS_FILE, MutantReview, read_reviews
from harness.errors import UsageError
from harness.record.cell import Delegation, Status
from reports.comparison.gate.pair import describe_refusal
from reports.mutation import markdown, page, terminal, views
from reports.site.build import write as write_site
from reports.tests import runs

OUTCOMES = (
    MutantOutcome.RED,
    MutantOutcome.RED,
    MutantOutcome.GATE,
    MutantOutcome.CHANGED,
    MutantOutcome.UNCHANGED,
    MutantOutcome.INVALID,
)


NAMES = ("executorch/a.py", "executorch/b.py")


def make_campaign(*outcomes: MutantOutcome, sampled: bool = True) -> Campaign:
    results = {}
    for number, outcome in enumerate(outcomes):
        mutant = Mutant(
            id=f"id{number}", area="xnnpack", file=NAMES[number % 2], function="f", begin=1,
            end_line=9, first=number,
            last=number, statement="x", operator="constant", start=number, end=number + 1,
            before="1", after="2",
        )  # fmt: skip
        results[mutant.id] = MutantResult(
            mutant=mutant, outcome=outcome, sampled=sampled, tried=3, executing=5,
            cell="a@xnnpack:fp32", detail="wrong" if outcome is MutantOutcome.RED else "",
        )  # fmt: skip
    files = {
        "executorch/a.py": FileMutants(executed=6, once=5, unexecuted=1),
        "executorch/b.py": FileMutants(executed=3, unexecuted=2),
    }
    return Campaign(info=CampaignInfo(target="xnnpack", files=files), results=results)


def test_scores_are_shares_of_the_valid_mutants_of_the_sample() -> None:
    score = views.compute_score(make_campaign(*OUTCOMES))
    assert (score.judged, score.red, score.noticed) == (5, 0.4, 0.6)
    assert score.executed_share == 9 / 12
    assert views.compute_score(make_campaign(*OUTCOMES, sampled=False)).judged == 0


def test_files_with_survivors_come_first() -> None:
    rows = views.list_file_scores(make_campaign(*OUTCOMES))
    assert [(row.name, row.judged, row.executed) for row in rows] == [
        ("executorch/a.py", 3, 6),
        ("executorch/b.py", 2, 3),
    ]
    worse = make_campaign(MutantOutcome.RED, MutantOutcome.CHANGED)
    assert [row.name for row in views.list_file_scores(worse)] == [NAMES[1], NAMES[0]]


def test_a_mutant_that_is_no_longer_noticed_is_worse() -> None:
    before = make_campaign(
        MutantOutcome.GATE, MutantOutcome.UNCHANGED, MutantOutcome.RED, MutantOutcome.RED
    )
    after = make_campaign(
        MutantOutcome.CHANGED, MutantOutcome.RED, MutantOutcome.RED, MutantOutcome.GATE
    )
    changes = views.compare_campaigns(before, after)
    shown = [(each.after.mutant.id, each.is_worse) for each in changes]
    assert shown == [("id0", True), ("id1", False), ("id3", False)]
    assert views.compare_campaigns(before, make_campaign(MutantOutcome.INVALID)) == []


def test_the_terminal_shows_scores_and_survivors() -> None:
    out = io.StringIO()
    terminal.render([make_campaign(*OUTCOMES)], Console(file=out, width=160), limit=1)
    text = out.getvalue()
    assert "40%" in text
    assert "60%" in text
    assert "id3 changed   executorch/b.py:3 f: constant: 1 → 2 3 of 5 cells" in text or (
        "id4 unchanged executorch/a.py:4 f: constant: 1 → 2 3 of 5 cells" in text
    )
    assert "and 1 more; --limit 0 shows all" in text


def test_the_gate_judges_a_pair_of_records() -> None:
    cell = runs.cell()
    assert describe_refusal(cell, cell) == ""
    assert describe_refusal(cell, structs.replace(cell, seconds=99.0)) == ""
    lost = Delegation(undelegated_nodes=2, undelegated_ops={"aten.add.Tensor": 2})
    assert "aten.add.Tensor" in describe_refusal(cell, structs.replace(cell, delegation=lost))
    unsupported = runs.cell(status=Status.UNSUPPORTED, runtime="none", numerics=[])
    assert "unsupported" in describe_refusal(cell, unsupported)


def explain(campaign: Campaign, *names: str) -> Campaign:
    reviews = [MutantReview(kind="equivalent", reason="x", id=name) for name in names]
    return structs.replace(campaign, info=structs.replace(campaign.info, reviews=reviews))


def test_explained_survivors_do_not_count() -> None:
    explained = explain(make_campaign(*OUTCOMES), "id0", "id4")
    score = views.compute_score(explained)
    # A mutant that is noticed counts, although a review says that it cannot be.
    assert (score.judged, score.explained, score.survivors, score.noticed) == (4, 1, 1, 0.75)
    assert [each.mutant.id for each in views.list_survivors(explained)] == ["id3"]


def test_the_markdown_page_has_scores_and_files() -> None:
    text = markdown.render([explain(make_campaign(*OUTCOMES), "id4")])
    assert "| xnnpack | 0 | 12 | 75% | 4 | 50% | 75% | 1 | 0 | 1 |" in text
    assert "| `executorch/b.py` | 2 | 50% | 1 |" in text
    assert "a.py" not in text
    assert all(len(line) <= 120 for line in text.splitlines())


def test_the_page_shows_survivors_and_is_linked(tmp_path: Path) -> None:
    campaign = make_campaign(*OUTCOMES)
    text = page.render([campaign], title="run <1>", back="../index.html")
    assert "run &lt;1&gt;" in text
    assert "<script" not in text
    assert "id3" in text
    assert "id0" not in text
    run = tmp_path / "runs" / "one"
    runs.write(run, [runs.cell()])
    site = tmp_path / "site"
    assert "mutation.html" not in write_site(site, [run]).index.read_text()
    folder = find_campaign_folder(run, "xnnpack")
    open_campaign(folder, campaign.info)
    for result in campaign.results.values():
        append_result(folder, result)
    index = write_site(site, [run]).index.read_text()
    (found,) = site.glob("data-*/mutation.html")
    assert f'href="{found.relative_to(site)}"' in index


def test_reviews_are_checked(tmp_path: Path) -> None:
    assert read_reviews(tmp_path) == []
    path = tmp_path / REVIEWS_FILE
    good = '[[review]]\nkind = "equivalent"\nreason = "always 1"\n'
    path.write_text(good + 'id = "abc"\n')
    assert read_reviews(tmp_path)[0].reason == "always 1"
    wrong = '[[review]]\nkind = "dull"\nreason = "x"\nid = "abc"\n'
    for content in (wrong, "[abc", good, good + 'name = "x"\n', "other = 1\n"):
        path.write_text(content)
        with pytest.raises(UsageError, match=REVIEWS_FILE):
            read_reviews(tmp_path)


def test_all_globs_of_a_review_have_to_match() -> None:
    mutant = make_campaign(MutantOutcome.CHANGED).results["id0"].mutant
    mutant = structs.replace(mutant, before="call(\n    x=1)")
    given = MutantReview(kind="harmless", reason="x", file="*/a.py", before="call( x=*")
    assert mutant.is_explained_by(given)
    assert not mutant.is_explained_by(structs.replace(given, operator="keyword"))
