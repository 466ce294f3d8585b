"""One folder that holds nonsense costs that folder: the others are shown, and it is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.record.folder import CELLS_FILE, RUN_FILE
from reports import history, site
from reports.tests.runs import cell, numerics, write

_LONG = 10**400
_NUMBERS = {"max_abs": 1e308, "mean_abs": -1e308, "sqnr_db": 1e308, "bound": 1e308}

RUNS: dict[str, dict[str, Any]] = {
    "year 1": {"started": "0001-01-01T00:00:00+00:00", "ended": "0001-01-01T00:00:01+00:00"},
    "before year 1": {"started": "0001-01-01T00:00:00+14:00"},
    "after year 9999": {"started": "9999-12-31T23:59:59-14:00", "ended": "0001-01-01T00:00:00"},
    "no date": {"started": "yesterday " * 1000},
    "a long seed": {"seed": _LONG},
    "a long exit status": {"exit_status": _LONG},
    "a long count": {"records": _LONG},
    "long cores": {"environment": {"cores": _LONG}},
}
CELLS: dict[str, Any] = {
    "brackets": "[" * 100_000,
    "long times": {"seconds": 1e308, "overhead": 1e308, "stages": {"lower": 1e308, "run": 1e308}},
    "a long seed of a cell": {"seed": _LONG},
    "a long program": {"program_bytes": _LONG},
    "long counts": {"delegation": {"delegates": 10**40, "delegated_nodes": 10**25}},
    "long calls": {"delegation": {"delegates": 1, "delegated_ops": {"aten.mm": 10**40}}},
    "long shapes": {"numerics": [json.loads(cell().to_json())["numerics"][0] | {"shape": [_LONG]}]},
    "large numbers": {"numerics": [json.loads(cell().to_json())["numerics"][0] | _NUMBERS]},
}


def _spoil_run(folder: Path, fields: dict[str, Any]) -> None:
    file = folder / RUN_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def _spoil_cell(folder: Path, fields: dict[str, Any] | str) -> None:
    file = folder / CELLS_FILE
    first, second = file.read_text().splitlines()
    line = fields if isinstance(fields, str) else json.dumps(json.loads(second) | fields)
    file.write_text(f"{first}\n{line}\n")


SPOILT: dict[str, tuple[Callable[[Path, Any], None], Any]] = {
    **{name: (_spoil_run, fields) for name, fields in RUNS.items()},
    **{name: (_spoil_cell, fields) for name, fields in CELLS.items()},
}


@pytest.fixture(params=SPOILT)
def nights(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two good runs and a bad one, which is the newest by its own word."""
    for day in (1, 2, 3):
        name = "bad" if day == 3 else f"good-{day}"
        cells = [cell("add/a", seed=7), cell("add/b", seed=7, numerics=[numerics()])]
        write(tmp_path / "runs" / name, cells, started=f"2026-01-0{day}T02:00:00+00:00")
    spoil, fields = SPOILT[request.param]
    spoil(tmp_path / "runs" / "bad", fields)
    return tmp_path / "runs"


@pytest.mark.one_of(3)
def test_the_history_has_the_other_folders(nights: Path) -> None:
    for _ in range(2):  # in full, and from the compact copies
        past = history.load(nights)
        assert {"good-1", "good-2"} <= set(past.runs["run"])
        good = past.runs["run"].str.startswith("good")
        assert past.outcomes[good].shape == (2, 2)
        assert (past.metric("seconds")[good] == 0.45).all()
        if "bad" not in set(past.runs["run"]):
            assert any("bad" in line for line in past.problems)
    for arguments in ([], ["--format", "json"], ["--format", "markdown"]):
        done = CliRunner().invoke(main, ["history", str(nights), *arguments])
        assert done.exit_code == 0, done.output


def test_the_dashboard_has_the_other_folders(nights: Path, tmp_path: Path) -> None:
    made = site.write(tmp_path / "site", [nights])
    assert made.runs >= 2
    assert made.runs == 3 or any("bad" in line for line in made.remarks)
    assert "good-2" in made.index.read_text()


@pytest.mark.parametrize("command", ["report", "diff", "export", "merge", "baseline"])
def test_other_commands_read_it_or_report_why_not(nights: Path, command: str) -> None:
    good, bad, out = str(nights / "good-1"), str(nights / "bad"), str(nights.parent / "out")
    arguments = {
        "report": ["report", bad],
        "diff": ["diff", good, bad],
        "export": ["export", bad, "--format", "parquet", "-o", out],
        "merge": ["merge", out, good, bad],
        "baseline": ["baseline", "update", "--baseline", out, bad, "--allow-incomplete"],
    }
    done = CliRunner().invoke(main, arguments[command])
    assert done.exit_code in (0, 2), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    if done.exit_code == 2:
        assert "bad" in done.stderr
        assert done.stderr.count("\n") == 1
