"""The limitations of each suite can be imported first: a run may select any suite alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SUITES = Path(__file__).parents[1]


@pytest.mark.nightly
def test_limitations_import_in_any_order() -> None:
    names = sorted(
        f"suites.{path.relative_to(SUITES).parts[0]}.limitations"
        for path in SUITES.glob("*/limitations*")
        if path.suffix == ".py" or path.is_dir()
    )
    assert "suites.quant.limitations" in names
    code = (
        "import importlib, sys\n"
        f"for name in {names}:\n"
        "    for each in [each for each in sys.modules if each.partition('.')[0] == 'suites']:\n"
        "        del sys.modules[each]\n"
        "    importlib.import_module(name)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=SUITES.parent,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
