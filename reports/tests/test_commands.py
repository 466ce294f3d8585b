"""The commands on records start quickly: nothing heavy is imported before one runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"torch", "pandas", "pyarrow", "numpy", "rich", "jinja2", "plotly", "executorch"}

COMMANDS = ["", "baseline update", "diff", "gate", "merge"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_imports_nothing_heavy(command: str) -> None:
    program = (
        "import json, sys\n"
        "from click.testing import CliRunner\n"
        "from harness.cli import main\n"
        f"done = CliRunner().invoke(main, {[*command.split(), '--help']!r})\n"
        "assert done.exit_code == 0, done.output\n"
        "print(json.dumps(sorted(name.partition('.')[0] for name in sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert not HEAVY & set(json.loads(done.stdout))


def test_every_command_of_the_contract_is_there() -> None:
    from harness.cli import main

    assert {"baseline", "diff", "gate", "merge"} <= main.commands.keys()
