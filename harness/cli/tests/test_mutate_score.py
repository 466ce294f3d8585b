"""``conform mutate score``: campaigns of several runs on one page."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from harness.cli import main
from harness.coverage.mutation.mutant import CampaignInfo, find_campaign_folder, open_campaign


def test_runs_of_single_backends_share_a_page(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for run, target, cells in ((first, "mlx", 3), (first, "metal", 5), (second, "metal", 1234)):
        open_campaign(find_campaign_folder(run, target), CampaignInfo(target=target, cells=cells))
    page = tmp_path / "trust.md"
    command = ["mutate", "score", "--run", str(first), "--run", str(second), "--write", str(page)]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = [line for line in page.read_text().splitlines() if line.startswith("| m")]
    assert [row.split(" | ")[:2] for row in rows] == [["| metal", "1,234"], ["| mlx", "3"]]
