"""Which modules are suites."""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path

import pytest

from harness.errors import CaseError
from harness.pytest_plugin.items import pause_garbage_collector
from harness.session.discovery import is_suite, load_suite


@pytest.mark.parametrize(
    ("content", "suite"),
    [
        ("CASES = []\n", True),
        ("CASES: list[Case] = []\n", True),
        ("CASES = OTHERS = []\n", True),
        ("import a\n\nCASES = [\n    a.case(),\n]\n", True),
        ("CASES_PER_OP = 3\n", False),
        ("CASES\n", False),
        ("CASES: list[Case]\n", False),
        ("CASES += []\n", False),
        ("CASES[0] = 1\n", False),
        ('"""\nCASES = the list of cases\n"""\n', False),
        ("# CASES = []\n", False),
        ("def build():\n    CASES = []\n", False),
        ("class A:\n    CASES = []\n", False),
        # Loading it reports the error; leaving it out would shrink the run.
        ("CASES = [\n", True),
        ("", False),
    ],
)
def test_a_suite_assigns_cases_at_its_top_level(tmp_path: Path, content: str, suite: bool) -> None:
    file = tmp_path / "module.py"
    file.write_text(content)
    assert is_suite(file) is suite


def test_only_python_modules_are_suites(tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text("CASES = []\n")
    assert not is_suite(file)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_rests_while_items_are_collected(enabled: bool) -> None:
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with contextlib.suppress(ValueError), pause_garbage_collector():
            assert not gc.isenabled()
            raise ValueError
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


def test_a_module_of_limitations_without_a_list_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "without_list"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "limitations.py").write_text("OTHERS = []\n")
    (folder / "cases.py").write_text("CASES = []\n")
    with pytest.raises(CaseError, match=r"without_list\.limitations has no list LIMITATIONS"):
        load_suite(folder / "cases.py")
