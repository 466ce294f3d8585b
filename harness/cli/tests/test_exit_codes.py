"""Exit codes follow the table in docs/ci.md: 0 fine, 1 red, 2 not judged or misused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from harness.cli.__main__ import main

ROOT = Path(__file__).parents[3]


def commands(command: click.Command, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            if not inner.hidden:
                yield from commands(inner, (*names, name))
        if not command.invoke_without_command:
            return
    yield names


COMMANDS = [" ".join(names) for names in commands(main)]

# Invalid arguments by command; each prints one line on stderr and exits with code 2.
NONSENSE: dict[str, tuple[str, ...]] = {
    "run": ("--targets", "nowhere", "-n", "0", "suites/quick"),
    "report": ("absent",),
    "check": ("absent.py:model",),
    "show": ("no/cell",),
    "repro": ("no/cell@portable:fp32",),
    "exec": ("absent.pte",),
    "trace": ("no/cell@portable:fp32",),
    "reduce": ("no/cell@portable:fp32",),
    "list backends": ("surplus",),
    "list cases": ("--op", "no_such_operator"),
    "list tags": ("--op", "no_such_operator"),
    "list operators": ("--op", "no_such_operator"),
    "list targets": ("--op", "no_such_operator"),
    "list settings": ("--no-such-option",),
    "list fallbacks": ("absent",),
    "list suites": ("--op", "no_such_operator"),
    "list limitations": ("--suites", "absent", "--write", "absent/page.md"),
    "passes bisect": ("no/cell@portable:fp32",),
    "passes check": ("NoSuchPass",),
    "passes": ("--no-such-option",),
    "coverage": ("--no-such-option",),
    "coverage record": ("--incremental", "-n", "0", "suites/quick"),
    "coverage show": ("absent",),
    "coverage cells": ("op_gelu.py", "absent"),
    "coverage affected": ("absent.patch",),
    "coverage support": ("absent",),
    "mutate run": ("xnnpack", "--run", "absent"),
    "mutate score": ("--run", "absent"),
    "mutate show": ("0123", "--run", "absent"),
    "mutate try": ("0123", "--run", "absent"),
    "mutate compare": ("absent", "absent"),
    "fuzz": ("--targets", "nowhere"),
    "releases run": ("1.5.1",),
    "releases exec": ("1.5.1",),
    "releases compare": ("absent", "absent"),
    "releases list": ("--wheels", "absent"),
    "releases affected": ("absent",),
    "releases bisect": ("no/cell", "1.5.0", "1.5.1"),
    "cluster worker": ("no address",),
    "cluster keys": (),
    "cluster up": ("--address", "nonsense"),
    "cache list": ("surplus",),
    "cache prune": ("--max-size", "much"),
    "new-backend": ("Not A Name",),
    "diff": ("absent", "absent"),
    "gate": ("absent",),
    "baseline update": ("absent",),
    "merge": ("out", "absent"),
    "history": ("absent",),
    "export": ("absent",),
    "dashboard": ("out", "absent"),
}


def conform(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


def test_every_command_is_in_the_table() -> None:
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    table = text.partition("## Exit codes")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall("`([^`]+)`", row)]
    assert sorted(named) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_nonsense_is_exit_code_2_without_a_traceback(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    result = conform(*command.split(), *NONSENSE[command])
    assert result.exit_code == 2, result.output
    said = result.stderr + capfd.readouterr().err  # of a child as well
    assert said.strip()
    assert "Traceback" not in result.output + said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("backends", "list backends"),
        ("limitations", "list limitations"),
        ("bisect", "releases bisect"),
        ("worker", "cluster worker"),
        ("inspect", "show PROGRAM.pte"),
        ("releases forget", "cache prune releases --clear"),
    ],
)
def test_an_old_command_names_the_new_one(old: str, new: str) -> None:
    arguments = {
        "bisect": ("no/cell", "--good", "1.5.0", "--bad", "1.5.1"),
        "inspect": ("absent.pte",),
        "worker": ("no address",),
    }
    if old in ("backends", "limitations", "releases forget"):
        result = conform(*old.split(), "--help")
        assert result.exit_code == 0
        assert f"Use: conform {new}" in " ".join(result.output.split())
        return
    result = conform(old, *arguments[old])
    assert result.exit_code == 2
    assert f"Use: conform {new}" in result.stderr


def test_a_missing_option_is_exit_code_2() -> None:
    for command in COMMANDS:
        assert conform(*command.split(), "--no-such-option").exit_code == 2, command
