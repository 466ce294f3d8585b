"""Results survive a killed process, and are of one version of the code."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from harness.coverage.mutation.mutant import (
    RESULTS_FILE,
    CampaignInfo,
    MutantOutcome,
    MutantResult,
    append_result,
    find_campaign_folder,
    list_campaigns,
    open_campaign,
    read_campaign,
)
from harness.coverage.mutation.operators import list_mutants
from harness.errors import ConformError

MUTANTS = list_mutants(b"def f(x, y):\n    return x < 1, y > 2, x + y\n", "a.py", "xnnpack")
INFO = CampaignInfo(target="xnnpack", packages={"executorch": "1.5.1"})


def make_result(number: int, outcome: MutantOutcome = MutantOutcome.RED) -> MutantResult:
    return MutantResult(mutant=MUTANTS[number], outcome=outcome)


def test_results_are_read_back_and_the_last_one_of_a_mutant_counts(tmp_path: Path) -> None:
    folder = find_campaign_folder(tmp_path, "tosa:int")
    assert open_campaign(folder, structs.replace(INFO, target="tosa:int")).results == {}
    for result in (make_result(0), make_result(1), make_result(0, MutantOutcome.UNCHANGED)):
        append_result(folder, result)
    (campaign,) = list_campaigns(tmp_path)
    assert campaign.info.target == "tosa:int"
    assert [each.outcome for each in campaign.results.values()] == ["unchanged", "red"]


def test_a_cut_line_costs_its_own_result_alone(tmp_path: Path) -> None:
    open_campaign(tmp_path, INFO)
    append_result(tmp_path, make_result(0))
    append_result(tmp_path, make_result(1))
    path = tmp_path / RESULTS_FILE
    path.write_bytes(path.read_bytes()[:-20])
    append_result(tmp_path, make_result(2))
    assert set(read_campaign(tmp_path).results) == {MUTANTS[0].id, MUTANTS[2].id}


def test_results_for_other_versions_are_not_mixed(tmp_path: Path) -> None:
    open_campaign(tmp_path, INFO)
    open_campaign(tmp_path, INFO)
    other = structs.replace(INFO, packages={"executorch": "1.6.0"})
    open_campaign(tmp_path, other)  # nothing is judged yet
    append_result(tmp_path, make_result(0))
    with pytest.raises(
        ConformError, match=r"results for executorch 1\.6\.0, and executorch 1\.5\.1"
    ):
        open_campaign(tmp_path, INFO)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"version": 99, "target": "x"}'])
def test_damaged_campaigns_are_refused(tmp_path: Path, content: bytes) -> None:
    open_campaign(tmp_path, INFO)
    (tmp_path / "mutation.json").write_bytes(content)
    with pytest.raises(ConformError, match=r"mutation\.json"):
        read_campaign(tmp_path)


def test_a_mutant_of_another_file_is_not_applied() -> None:
    with pytest.raises(ConformError, match="not the file"):
        MUTANTS[0].apply(b"def g():\n    return 1\n" * 9)
