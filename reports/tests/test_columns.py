"""Tables show one row per recipe, and its variations by passes together."""

from __future__ import annotations

from reports.columns import columns, lines
from reports.outcome import CellOutcome
from reports.summary import Totals

VARIED = ["tosa:fp+a", "tosa:fp+a+b", "tosa:fp-c"]


def test_backends_and_recipes_keep_their_order_and_variations_come_last() -> None:
    found = columns(["tosa:fp", *VARIED, "mlx:fp32", "tosa:int"])
    assert [column.name for column in found] == [
        "tosa:fp", "tosa:int", "tosa:fp ± passes", "mlx:fp32"
    ]  # fmt: skip
    assert found[2].targets == tuple(VARIED)
    assert (found[2].backend, found[2].recipe) == ("tosa", "fp ± passes")


def test_few_variations_are_not_grouped() -> None:
    assert [column.name for column in columns(VARIED[:2])] == VARIED[:2]


def test_a_name_that_is_no_target_is_shown_unchanged() -> None:
    assert [column.name for column in columns(["(no target)", "+x", ":"])] == [
        "(no target)", "+x", ":"
    ]  # fmt: skip


def test_a_line_adds_up_its_members() -> None:
    totals = [
        Totals("tosa:fp"),
        *(Totals(name, seconds=1.5, available=True) for name in VARIED),
    ]
    for number, total in enumerate(totals):
        total.counts[CellOutcome.PASSED] += number
        total.runtimes["reference"] += number
    alone, together = lines(totals)
    assert alone.total is totals[0]
    assert not alone.members
    assert together.members == tuple(totals[1:])
    assert (together.total.passed, together.total.seconds) == (6, 4.5)
    assert together.total.runtimes == {"reference": 6}
    assert together.total.available
    assert totals[1].passed == 1  # No member is changed.
