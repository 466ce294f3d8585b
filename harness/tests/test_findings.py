"""docs/findings.md and its scripts agree, and each script still reproduces its finding."""

from __future__ import annotations

import ast
import os
import py_compile
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOLDER = DOCS / "findings"
FILES = sorted(FOLDER.glob("*.py"))
SCRIPTS = [path for path in FILES if "__main__" in path.read_text()]
SHARED = {path.stem for path in FILES} - {path.stem for path in SCRIPTS}
PACKAGES = {"torch", "numpy", "executorch", "torchao", "mlx", "transformers", "coremltools"}
LINK = re.compile(r"\(findings/(\w+\.py)\)")
PARTS = ("Observed", "Expected", "Cause", "Severity", "Workaround", "Releases")

SHOWS = 1
"""Exit code of a script whose defect shows; 0 is gone, 2 cannot be tried."""


def _name(path: Path) -> str:
    return path.stem


def _sections() -> dict[str, str]:
    """The findings of the document, by title: each section with a script."""
    _, *parts = re.split(r"^## ", (DOCS / "findings.md").read_text(), flags=re.MULTILINE)
    return {title: text for title, _, text in (part.partition("\n") for part in parts)}


def test_the_document_and_the_folder_name_the_same_scripts() -> None:
    named = LINK.findall((DOCS / "findings.md").read_text())
    assert sorted(named) == [path.name for path in FILES]  # each once


def test_each_finding_has_a_script_and_all_sections() -> None:
    findings = {title: text for title, text in _sections().items() if LINK.search(text)}
    for title, text in findings.items():
        assert len(LINK.findall(text)) == 1, title
        assert "```python" in text, f"{title}: no program"
        missing = [part for part in PARTS if f"**{part}" not in text]
        assert not missing, f"{title}: {missing}"
    assert len(findings) == len(SCRIPTS)


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_script_needs_nothing_of_this_project(path: Path, tmp_path: Path) -> None:
    py_compile.compile(str(path), cfile=str(tmp_path / "compiled"), doraise=True)
    allowed = PACKAGES | SHARED | set(sys.stdlib_module_names)
    for node in ast.walk(ast.parse(path.read_text())):
        imported = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        for name in imported:
            assert name.split(".")[0] in allowed, f"{path.name}:{node.lineno} imports {name}"


def _run(path: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script in a folder and an environment that know nothing of this project."""
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(path), *arguments]
    return subprocess.run(
        command, cwd=folder, env=alone, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.nightly
@pytest.mark.parametrize("path", SCRIPTS, ids=_name)
def test_the_defect_still_shows(path: Path, tmp_path: Path) -> None:
    ended = _run(path, tmp_path)
    if "cannot be tried here: this CPU" in ended.stdout:
        pytest.skip(ended.stdout)
    assert ended.returncode == SHOWS, (
        f"{path.name} ends with {ended.returncode}: the finding is gone (0) or not judged (2); "
        f"update docs/findings.md and the limitations that name its cause\n"
        f"{ended.stdout}{ended.stderr[-2000:]}"
    )


PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
from common import CannotTry, Observation, main

def cannot():
    raise CannotTry("no GPU")

def missing():
    import no_such_package

def other():
    raise ValueError("other")

for observe in (lambda: Observation(1, 2, wrong=True), lambda: Observation(1, 1, wrong=False),
                cannot, missing, other):
    try:
        main(observe)
    except SystemExit as ended:
        print("exit", ended.code)
"""


@pytest.mark.nightly
def test_exit_codes_of_a_finding(tmp_path: Path) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE)
    said = _run(probe, tmp_path, str(FOLDER)).stdout
    for text in (
        "observed: 2\nthe defect shows\nexit 1\n",
        "observed: 1\nthe defect is gone\nexit 0\n",
        "cannot be tried here: no GPU\nexit 2\n",
        "cannot be tried here: No module named 'no_such_package'\nexit 2\n",
        "it failed in another way than the finding says\nexit 2\n",
    ):
        assert text in said, said
