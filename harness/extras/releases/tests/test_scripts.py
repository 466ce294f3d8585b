"""Scripts on several releases: each exit code is reported, however the script ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.releases import releases
from harness.errors import ReleaseError
from harness.extras.releases import scripts
from harness.extras.releases.available import HERE, parse_release


def _script(folder: Path, name: str, code: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(code)
    return path


def test_each_script_reports_its_result(tmp_path: Path) -> None:
    paths = [
        _script(tmp_path, "gone", "print('nothing')"),
        _script(tmp_path, "shows", "import sys; print('seen', file=sys.stderr); sys.exit(1)"),
        _script(tmp_path, "dies", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
    ]
    told: list[str] = []
    found = [
        ended for _, (ended,) in scripts.run_scripts([parse_release(HERE)], paths, told.append)
    ]
    assert [each.status_text for each in found] == ["0", "1", "SIGSEGV"]
    assert [each.output for each in found] == ["nothing\n", "seen\n", ""]
    assert told == ["gone.py (1 of 3)", "shows.py (2 of 3)", "dies.py (3 of 3)"]


def test_a_script_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "_LIMIT", 0.2)
    hangs = _script(tmp_path, "hangs", "import time; time.sleep(600)")
    ((_, (ended,)),) = scripts.run_scripts([parse_release(HERE)], [hangs], lambda said: None)
    assert ended.status_text == "SIGKILL"


def test_a_script_imports_the_release_and_nothing_of_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _script(tmp_path, "executorch", "")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    asks = _script(tmp_path / "..", "asks", "import executorch; print(executorch.__path__)")
    ((_, (ended,)),) = scripts.run_scripts([parse_release(HERE)], [asks], lambda said: None)
    assert "site-packages" in ended.output


def test_a_missing_script_is_reported_before_any_script_runs(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="there is no"):
        list(scripts.run_scripts([parse_release(HERE)], [tmp_path / "none.py"], lambda said: None))


def test_the_command_prints_a_table_and_fails_where_one_was_killed(tmp_path: Path) -> None:
    fine = _script(tmp_path, "fine", "print('seen')")
    dies = _script(tmp_path, "dies", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    ran = CliRunner().invoke(releases, ["exec", HERE, str(fine), "-v"])
    assert ran.exit_code == 0, ran.output
    assert "--- fine.py on here: 0\nseen" in ran.output
    ran = CliRunner().invoke(releases, ["exec", HERE, str(fine), str(dies)])
    assert ran.exit_code == 2
    assert "SIGKILL" in ran.output
