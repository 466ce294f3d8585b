"""Markdown: text of a record stays inside its place, and the report inside its length."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from hypothesis import given, strategies as st

from harness.record.cell import Delegation, LimitationRef, Status
from reports.render import markdown
from reports.tests.runs import cell, write


def _columns(row: str) -> int:
    # As GitHub splits a row: a backslash takes the character after it along.
    return len(re.sub(r"\\.", "", row).split("|")) - 2


def _tables(shown: str) -> list[list[str]]:
    parts = itertools.groupby(shown.splitlines(), key=lambda line: line.startswith("|"))
    return [list(rows) for inside, rows in parts if inside]


def test_markdown_keeps_records_out_of_its_own_syntax(tmp_path: Path) -> None:
    odd = "a | b `c` \\| **d** <b>e</b> [f](javascript:g) @someone\n| g |\n# h"
    bad = cell("x|`y`", status=Status.FAILED, error=odd, op=odd, stage=odd, stages={odd: 1.0},
               limitation=LimitationRef(reason=odd, link="javascript:g"),
               delegation=Delegation(delegates=1, undelegated_ops={odd: 1}))  # fmt: skip
    shown = markdown.render(write(tmp_path / "r", [bad], problems=[odd]))
    tables = _tables(shown)
    assert len(tables) >= 6
    for rows in tables:
        assert {_columns(row) for row in rows} == {_columns(rows[0])}
    outside_code = re.sub(r"`[^`]*`|<code>.*?</code>", "", shown)
    assert "<b>" not in outside_code
    assert "**d**" not in outside_code
    assert not re.search(r"(?<!\\)\]\(javascript", outside_code)
    assert "@someone" not in outside_code


@given(st.text())
def test_any_text_stays_in_its_table_cell(value: str) -> None:
    for spelled in (markdown.prose(value), markdown.code(value), markdown.link(value)):
        assert "\n" not in spelled
        assert _columns(f"| {spelled} | 2 |") == 2


def test_markdown_code_needs_entities_only_where_a_table_would_break() -> None:
    assert markdown.code("conform repro 'a@b:c'") == "`conform repro 'a@b:c'`"
    assert markdown.code("a|b`c_") == "<code>a&#124;b&#96;c&#95;</code>"
    assert markdown.link("https://example.org/a_b") == "<https://example.org/a_b>"
    assert markdown.link("javascript:alert(1)") == "`javascript:alert(1)`"


def test_markdown_is_bounded_and_names_omitted_parts(tmp_path: Path) -> None:
    bad = [
        cell(f"op{n}/{'x' * 60}", f"t{n % 12}:r", status=Status.FAILED, error="|" * 5_000,
             op=f"o{n}", limitation=LimitationRef(reason=f"{n} " + "|" * 900))
        for n in range(1_200)
    ]  # fmt: skip
    shown = markdown.render(write(tmp_path / "r", bad))
    assert len(shown) <= markdown.LENGTH
    assert "Left out for length" in shown
    assert "and 1,180 more" in shown
