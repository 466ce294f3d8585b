"""Nightly cells, cell names in ``-k``, and explanations of missing cells."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.model.selection import parse_list
from harness.pytest_plugin.item_selection import explain_missing_arguments
from harness.pytest_plugin.items import SELECTED
from harness.pytest_plugin.tests.sessions import ROOT, run
from harness.session.catalogue import count_cells, list_cases

TIER = ("-o", "conform_tiers=mine")
LISTING = ("-n", "0", "--collect-only", "-q")

TAGGED = """
import torch
from harness.model.case import Case

def case(name, *tags, **rest):
    return Case(name, lambda: (torch.nn.ReLU(), (torch.randn(2),)), tags=frozenset(tags), **rest)

CASES = [case("a/day", "mine"), case("a/night", "mine", "nightly"), case("a/day_too", "other"),
         case("aa/day", "other"),
         case("a/mlx", targets="mlx:fp32")]
"""


@pytest.fixture
def tagged(project: Path) -> Path:
    (project / "suites" / "small.py").write_text(TAGGED)
    return project


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), {"a/day", "a/day_too", "aa/day"}),
        (("-m", "mine"), {"a/day"}),
        (("-m", "mine and nightly"), {"a/night"}),
        (("-m", "mine or nightly"), {"a/day", "a/night"}),
        (("-m", "mine", *TIER), {"a/day", "a/night"}),
        (("-m", "mine and not nightly", *TIER), {"a/day"}),
        (("-m", "not mine", *TIER), {"a/day_too", "aa/day"}),
        (("-m", "other", *TIER), {"a/day_too", "aa/day"}),
        (("-k", "a/day@null:eager"), {"a/day"}),
        (("-k", "(a/day@null:eager) or day_too"), {"a/day", "a/day_too"}),
        (("-k", "a/day@null:eager and not mine"), set()),
        (("-k", "/day@null:eager"), {"a/day", "aa/day"}),
    ],
)
def test_what_runs(tagged: Path, options: tuple[str, ...], names: set[str]) -> None:
    result = run(tagged, *LISTING, *options)
    assert set(re.findall(r"::(\S+)@null:eager", result.stdout)) == names, result.stdout


@pytest.mark.parametrize(
    ("path", "targets", "words"),
    [
        ("suites/smal.py", None, "smal.py; did you mean small.py?"),
        ("suites/small.py::a/dai@portable:fp32", None, "has no case a/dai; did you mean a/day"),
        (
            "suites/small.py::a/day@xnnpack:int8", None,
            "xnnpack:int8 is not among the targets of a plain run; select it with "
            "--targets xnnpack:int8",
        ),
        (
            "suites/small.py::a/day@xnnpack:int8", "portable:fp32",
            "xnnpack:int8 is not among the targets of --targets",
        ),
        ("suites/small.py::a/day@xnpack:int8", None, "no backend 'xnpack'; did you mean 'xnnpack'"),
        ("suites/small.py::a/mlx@tosa:fp", None, "a/mlx runs on mlx:fp32 only, not on tosa:fp"),
        ("suites/small.py::a/night@portable:fp32", None, "is a nightly cell; select it with -m"),
        ("suites/small.py::a/day@mlx:bf16", None, "is a nightly cell; select it with -m night"),
    ],
)  # fmt: skip
def test_an_absent_cell_is_told_by_what_would_select_it(
    tagged: Path, path: str, targets: str | None, words: str
) -> None:
    # Imported here, where "suites" may be the project's.
    (tagged / "suites").rename(tagged / "choosing_suites")
    stash = pytest.Stash()
    stash[SELECTED] = None if targets is None else parse_list(targets, "--targets")
    where = SimpleNamespace(dir=tagged)
    config: Any = SimpleNamespace(args=[f"choosing_{path}"], invocation_params=where, stash=stash)
    (sentence,) = explain_missing_arguments(config)
    assert words in sentence


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("ops", "; did you mean suites/ops?"),
        ("unary", "; did you mean suites/ops/unary.py?"),
        ("linear/bias", "; select cases by name with -k"),
    ],
)
def test_a_suite_named_without_its_folder(tmp_path: Path, asked: str, words: str) -> None:
    (tmp_path / "suites" / "ops").mkdir(parents=True)
    (tmp_path / "suites" / "ops" / "unary.py").touch()
    config: Any = SimpleNamespace(args=[asked], invocation_params=SimpleNamespace(dir=tmp_path))
    (sentence,) = explain_missing_arguments(config)
    assert sentence.endswith(words)


def test_a_session_says_it(tagged: Path) -> None:
    result = run(tagged, "-n", "1", targets=None, paths=("suites/small.py::a/day@xnnpack:int8",))
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: xnnpack:int8 is not among the targets of a plain run" in result.stdout


def test_the_table_of_backends_says_what_selects_a_target() -> None:
    found = {name: rest for name, *rest in count_cells(ROOT / "suites")}
    by_day, at_night, packages = found["xnnpack:fp32"]
    assert by_day > 500
    assert at_night > by_day
    assert {"ops", "models", "quant", "quick"} <= set(packages)
    assert found["mlx:bf16"][0] == 0
    assert found["null:eager"] == [0, 0, []]
    assert found["xnnpack:fp32 with passes"][2] == ["passes", "variations", "xnnpack"]


def test_cases_are_listed_by_what_they_have() -> None:
    suites = ROOT / "suites"
    [found] = list_cases(suites, cases="linear/bias", targets=parse_list("*:int8", "--targets"))
    assert (found.op, found.suite) == ("linear", "suites.ops.matmul")
    assert found.targets == [
        f"{name}:int8" for name in "xnnpack mlx coreml cortex_m openvino".split()
    ]
    [plain] = list_cases(suites, cases="linear/bias")
    assert "xnnpack:fp32" in plain.targets
    assert "mlx:bf16" in plain.nightly
    assert all("dynamic" in each.tags for each in list_cases(suites, tags=["dynamic"]))
    assert list_cases(suites, ops="no_such_operator") == []


def test_the_command_lists_as_text_and_as_json() -> None:
    def listing(*arguments: str) -> str:
        folder = ("--suites", str(ROOT / "suites"), "--case", "abs/*")
        return str(CliRunner().invoke(main, ["list", *arguments, *folder]).stdout)

    assert listing("operators") == "abs  5\n"
    assert listing().splitlines()[0].startswith("abs/2d")
    assert json.loads(listing("--json"))[0]["name"] == "abs/2d"
    assert json.loads(listing("suites", "--json")) == {"suites.ops.unary": 5}
