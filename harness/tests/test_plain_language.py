"""Code, reports and documentation use plain technical English.

The list is small on purpose: words that only this project understood, and constructions that have
to be read twice. docs/glossary.md has the terms to use instead.
"""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIXES = {".py", ".pyi", ".md", ".html", ".js", ".j2", ".toml", ".ini", ".yml"}

BANNED = {
    r"\buntelling\b|\btelling (?:case|cell|output|pass|weights)": "say conclusive or vacuous",
    r"\bborn (?:here|there|at)\b": "say: the error originates here",
    r"\b(?:hang|hangs|hung) on\b": "say depends on",
    r"\b(?:farm|farms)\b": "say cluster",
    r"\b(?:wing|wings)\b|\bthe house\b": "say package",
    r"\brehears(?:e|es|al)\b": "say dry run or eager run",
    r"\b(?:at|by|the) night\b|(?<!day )\bby day\b": "say nightly run or plain run",
    r"\b(?:of which nothing|that of which|what of which)\b": "name the thing",
    r"\b(?:anybody|somebody)\b": "say who: a user, a backend author, another process",
    r"\bleft over\b": "say fallback node",
    r"\b(?:do|does) not look at\b": "say ignores or does not check",
}
EXCEPTIONS = {
    "CHANGELOG.md",  # names of earlier releases
    "harness/record/migrations.py",  # names of earlier schemas
    "harness/record/run.py",
    "harness/tests/test_plain_language.py",
}


def find_tracked_files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [
        name
        for name in listed
        if Path(name).suffix in SUFFIXES
        and name not in EXCEPTIONS
        and not name.startswith("docs/performance/")
        and (ROOT / name).is_file()
    ]


def read_prose(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a text; of Python files, lines of comments and strings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix not in {".py", ".pyi"}:
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from enumerate(token.string.splitlines(), token.start[0])


def find_banned(lines: Iterator[tuple[int, str]]) -> list[str]:
    return [
        f"{number}: {found[0]!r}: {advice}"
        for number, line in lines
        for pattern, advice in BANNED.items()
        if (found := re.search(pattern, line, re.IGNORECASE))
    ]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a checkout")
def test_no_file_uses_a_banned_word() -> None:
    found = {
        name: places
        for name in find_tracked_files()
        if (places := find_banned(read_prose(ROOT / name)))
    }
    assert not found, "\n".join(f"{name}:{place}" for name, all_ in found.items() for place in all_)


@pytest.mark.parametrize("text", ["the error is born there", "what it hangs on", "at night"])
def test_a_banned_word_is_found(text: str) -> None:
    assert find_banned(iter([(1, text)]))
