"""Output of the commands ``conform trace`` and ``conform reduce``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli import main

SUITE = """
import torch
from harness import Case

class Wrong(torch.nn.Module):
    def forward(self, x):
        x = torch.sigmoid(x) * 4
        return torch.nn.functional.gelu(x, approximate="tanh") + 1

CASES = [
    Case("wrong/gelu", lambda: (Wrong(), (torch.randn(4, 8),))),
    Case("right/relu", lambda: (torch.nn.ReLU(), (torch.randn(4, 8),))),
]
"""


@pytest.fixture
def suites(tmp_path: Path) -> Path:
    folder = tmp_path / "why_suites"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "cases.py").write_text(SUITE)
    return folder


def typed(*arguments: str | Path) -> Result:
    """Run the command without the patches that stay in this process."""
    return CliRunner().invoke(main, [*map(str, arguments), "--no-speed"])


def test_trace_prints_the_node_and_the_next_command(suites: Path, tmp_path: Path) -> None:
    saved = tmp_path / "found.json"
    ended = typed("trace", "wrong/gelu@xnnpack:fp32", "--suites", suites, "--save", saved)
    assert ended.exit_code == 1, ended.output
    assert "first diverging node: gelu  aten.gelu.default" in ended.output
    assert "origin  the error originates here" in ended.output
    assert "conform reduce" in ended.output
    written = json.loads(saved.read_text())
    assert (written["first"]["node"], written["runtime"]) == ("gelu", "native")
    assert written["first"]["source"].endswith('gelu(x, approximate="tanh") + 1')


def test_a_green_cell_is_reported_as_green(suites: Path) -> None:
    ended = typed("trace", "right/relu@xnnpack:fp32", "--suites", suites, "--json")
    assert ended.exit_code == 0
    assert json.loads(ended.stdout)["problem"] is None
    ended = typed("reduce", "right/relu@xnnpack:fp32", "--suites", suites)
    assert ended.exit_code == 2
    assert "is green with seed 0" in ended.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trace", "no/such@xnnpack:fp32"], "no case 'no/such'"),
        (["trace", "right/relu@no:fp32"], "no backend 'no'"),
        (["trace", "right/relu"], "not spelled case@backend:recipe"),
        (["reduce", "right/relu@xnnpack:fp64"], "has no recipe 'fp64'"),
        (["trace", "right/relu@xnnpack:fp32", "nowhere"], "nowhere is not a folder"),
        (["repro", "right/relu@null:eager", "--script", "x.py"], "does not say how it lowers"),
    ],
)
def test_nonsense_is_one_line(arguments: list[str], said: str, suites: Path) -> None:
    ended = typed(*arguments, "--suites", suites)
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert len([line for line in ended.stderr.splitlines() if line.startswith("conform:")]) == 1


@pytest.mark.nightly
def test_reduce_writes_a_script_and_runs_it(suites: Path, tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    cell = "wrong/gelu@xnnpack:fp32"
    ended = typed("reduce", cell, "--suites", suites, "--script", script)
    assert ended.exit_code == 0, ended.output
    assert "1 of 4 nodes reproduces it: aten.gelu.default" in ended.output
    assert "script exits with 1: the defect shows" in ended.output
    assert script.exists()
