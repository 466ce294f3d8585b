"""Files that a gate writes are bounded and valid, and text in a record stays text."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st
from rich.console import Console

from harness.cli import main
from harness.record.cell import Status
from reports.comparison.gate import (
    Judgement,
    github,
    judge,
    junit,
    markdown,
    parse,
    sarif,
    terminal,
)
from reports.comparison.tests.sides import SUBJECT, side
from reports.tests.runs import cell, large, write

ODD = (
    "a | b `c` \\| **d** <img src=x onerror=y> </details> [f](javascript:g) @someone\n"
    "::error title=x::injected\r\n##[error]x\x1b[31m %0A ]]> &amp; \ufffe"
)

POLICY = """
[[waiver]]
cell = "waived/*"
kind = "newly-failing"
reason = "because | @someone <b>"
owner = "o"
expires = 2999-01-01
[[waiver]]
cell = "gone|@someone/*"
kind = "fixed"
reason = "r"
owner = "o"
expires = 2999-01-01
"""


def odd_judgement() -> Judgement:
    old = side({SUBJECT: "passed", "waived/1": "passed", "lost/1": "passed", "known/1": "failed"})
    new = side({SUBJECT: "failed", "waived/1": "failed", "lost/1": "absent", "known/1": "failed"})
    for item in new.cells:
        if item.status is not Status.PASSED and item.case != "known/1":
            item.error = item.stage = item.suite = ODD
    new.info.problems = [ODD]
    new.info.environment.packages = {}
    old.info.selection = ODD
    return judge(old, new, parse(POLICY))


def test_markdown_keeps_records_out_of_its_own_syntax() -> None:
    shown = markdown.render(odd_judgement())
    outside = re.sub(r"`[^`\n]*`|<code>.*?</code>", "", shown)
    assert "<img" not in outside
    assert "@someone" not in outside
    assert not re.search(r"(?<!\\)\]\(javascript", outside)
    assert outside.count("<details>") == outside.count("</details>")
    assert "**d**" not in outside
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    columns = {len(re.sub(r"\\.", "", row).split("|")) - 2 for row in rows}
    assert columns <= {2, 3}


def test_annotations_are_one_line_each_and_cannot_be_broken_out_of() -> None:
    lines = github.render(odd_judgement())
    assert any(line.startswith("::error title=newly failing%3A subject") for line in lines)
    for line in lines:
        assert re.fullmatch(r"::(error|warning|notice) title=[^,:\r\n]*::[^\r\n]*", line), line
    assert (
        github.format_command("error", "a,b:c%", "x%\r\ny")
        == "::error title=a%2Cb%3Ac%25::x%25%0Ay"
    )


def test_many_errors_are_cut_and_counted() -> None:
    names = [f"many/{number}" for number in range(40)]
    judged = judge(side(dict.fromkeys(names, "passed")), side(dict.fromkeys(names, "failed")),
                   parse(""))  # fmt: skip
    lines = github.render(judged)
    assert len(lines) == 10
    assert "and 31 more errors" in lines[-1]
    assert "and 15 more" not in markdown.render(judged)
    assert "15 more red changes" in markdown.render(judged)


SARIF_REQUIRED = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {"driver": {"type": "object", "required": ["name", "rules"]}},
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["ruleId", "level", "message", "locations"],
                            "properties": {
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"type": "object", "required": ["text"]},
                                "locations": {
                                    "type": "array",
                                    "minItems": 1,
                                    "items": {"type": "object", "required": ["physicalLocation"]},
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}


def _conforms(value: Any, schema: dict[str, Any], where: str = "$") -> None:
    """The few words of JSON Schema that are used above."""
    if "const" in schema:
        assert value == schema["const"], where
    if "enum" in schema:
        assert value in schema["enum"], where
    if schema.get("type") == "object":
        assert isinstance(value, dict), where
        for name in schema.get("required", []):
            assert name in value, f"{where}.{name}"
        for name, part in schema.get("properties", {}).items():
            _conforms(value[name], part, f"{where}.{name}")
    if schema.get("type") == "array":
        assert isinstance(value, list), where
        assert len(value) >= schema.get("minItems", 0), where
        for number, item in enumerate(value):
            _conforms(item, schema["items"], f"{where}[{number}]")


def test_sarif_has_the_required_fields() -> None:
    judged = odd_judgement()
    log = json.loads(sarif.render(judged))
    _conforms(log, SARIF_REQUIRED)
    run = log["runs"][0]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} <= rules
    open_ = [result for result in run["results"] if "suppressions" not in result]
    assert len(open_) == len(judged.red) + len(judged.waivers) + len(judged.obstacles)
    for result in run["results"]:
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[\w/.]+", uri), uri
        assert ".." not in uri


def test_junit_counts_failures_and_obstacles() -> None:
    judged = odd_judgement()
    root = xml.fromstring(junit.render(judged))
    assert len(root.findall(".//failure")) == len({c.id for c in judged.red}) + len(judged.waivers)
    assert len(root.findall(".//error")) == 1
    for suite in root:
        assert int(suite.get("tests", "")) == len(suite)
        assert int(suite.get("failures", "")) == len(suite.findall(".//failure"))
    assert root.find(".//testsuite[@name='gate']") is not None


@given(st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_text_gives_valid_documents(value: str) -> None:
    old, new = side({SUBJECT: "passed"}), side({SUBJECT: "failed"})
    new.cells[-1].error = new.cells[-1].op = new.cells[-1].suite = value
    judged = judge(old, new, parse(""))
    assert judged.exit_code == 1
    xml.fromstring(junit.render(judged))
    _conforms(json.loads(sarif.render(judged)), SARIF_REQUIRED)
    for line in github.render(judged):
        assert re.fullmatch(r"::\w+ title=[^,:\r\n]*::[^\r\n]*", line)
    assert len(markdown.render(judged).splitlines()) < 60
    terminal.render(judged, console=Console(file=io.StringIO(), width=100))


def test_a_comment_stays_within_githubs_limit(tmp_path: Path) -> None:
    name = "x" * 200
    names = [f"op{number}/{name}" for number in range(400)]
    fail = [cell(case, status=Status.FAILED, error="|@" * 400, stage="lower") for case in names]
    before = write(tmp_path / "a", [cell(case) for case in names])
    judged = judge(before, write(tmp_path / "b", fail), parse(""))
    shown = markdown.render(judged)
    assert len(shown) < 65_536
    assert shown.startswith(markdown.MARK)
    assert "400 newly failing" in shown
    assert "conform repro" in shown
    assert re.search(r"Left out|and [\d,]+ more", shown)


def _gate(tmp_path: Path, *options: str, env: dict[str, str] | None = None) -> Any:
    (tmp_path / "gate.toml").write_text("")
    return CliRunner().invoke(
        main,
        ["gate", "--baseline", str(tmp_path / "a"), str(tmp_path / "b"), "--policy",
         str(tmp_path / "gate.toml"), *options],
        env={"GITHUB_ACTIONS": None} | (env or {}),
    )  # fmt: skip


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    write(tmp_path / "a", [cell("add/a"), cell("add/b")])
    bad = cell("add/b", status=Status.FAILED, error="::error::x", stage="lower")
    write(tmp_path / "b", [cell("add/a"), bad], exit_status=1)
    return tmp_path


def test_the_command_writes_requested_files_and_exits_by_the_verdict(pair: Path) -> None:
    files = {name: pair / "out" / name for name in ("c.md", "s.sarif", "j.xml")}
    done = _gate(pair, "--markdown", str(files["c.md"]), "--sarif", str(files["s.sarif"]),
                 "--junit", str(files["j.xml"]))  # fmt: skip
    assert done.exit_code == 1, done.output
    assert "RED" in done.output
    assert "::stop-commands::" not in done.output
    assert all(file.read_text() for file in files.values())


def test_on_github_texts_of_records_are_quoted_and_annotations_follow(pair: Path) -> None:
    done = _gate(pair, env={"GITHUB_ACTIONS": "true"})
    lines = done.output.splitlines()
    token = lines[0].removeprefix("::stop-commands::")
    end = lines.index(f"::{token}::")
    assert len(token) == 32
    assert any(line.startswith("::error title=newly failing") for line in lines[end:])
    assert done.exit_code == 1
    assert "::stop-commands::" not in _gate(
        pair, "--no-annotations", env={"GITHUB_ACTIONS": "true"}
    ).output  # fmt: skip


def test_without_a_policy_the_usual_file_or_the_defaults_hold(
    pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pair)
    command = ["gate", "--baseline", "a", "b", "--no-annotations"]
    by_default = CliRunner().invoke(main, command)
    assert by_default.exit_code == 1
    assert "policy: the defaults" in by_default.output
    (pair / ".ci").mkdir()
    (pair / ".ci" / "gate.toml").write_text('red = ["newly-crashed"]')
    by_file = CliRunner().invoke(main, command)
    assert by_file.exit_code != 1
    assert "policy: .ci/gate.toml" in by_file.output


def test_an_unreadable_file_exits_with_2_and_one_line(pair: Path) -> None:
    (pair / "bad.toml").write_text("min_cels = 1")
    for options in (["--policy", str(pair / "bad.toml")], ["--policy", str(pair / "none.toml")],
                    ["--baseline", str(pair / "none")], ["--baseline", __file__]):  # fmt: skip
        done = _gate(pair, *options)
        assert done.exit_code == 2
        assert done.output.startswith("conform: ")
        assert len(done.output.splitlines()) == 1
    (pair / "b" / "run.json").write_text('{"schema": 99}')
    assert _gate(pair).exit_code == 2


def test_an_error_of_the_gate_itself_is_not_red(
    pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("reports.comparison.gate.judge", broken)
    assert _gate(pair).exit_code == 2


def test_a_nightly_run_can_be_judged(tmp_path: Path) -> None:
    judged = judge(large(tmp_path / "a", cases=40, broken=False), large(tmp_path / "b", cases=40),
                   parse(""))  # fmt: skip
    assert judged.exit_code == 1
    for shown in (markdown.render(judged), junit.render(judged), sarif.render(judged)):
        assert shown
