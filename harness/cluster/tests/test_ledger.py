"""No cell is lost and none ends twice, even if workers fail."""

from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from harness.cluster.ledger import Ledger, WorkItem
from harness.cluster.tests.farms import place


def piece(name: str, cells: int = 1, seconds: float = 0.0) -> WorkItem:
    made = tuple(f"{name}/{number}@null:eager" for number in range(cells))
    return WorkItem("suites/a.py", name, made, seconds)


def sent(ledger: Ledger, *places: object) -> dict[str, tuple[str, ...]]:
    return {key: sent_item.item.cells for key, sent_item in ledger.take_sendable(places)}  # type: ignore[arg-type]


def test_longest_first_and_two_a_slot() -> None:
    ledger = Ledger(
        [piece("short", seconds=1), piece("long", seconds=9), piece("middle", seconds=5)]
    )
    names = [cells[0] for cells in sent(ledger, place("a")).values()]
    assert names == ["long/0@null:eager", "middle/0@null:eager"]
    assert not sent(ledger, place("a")), "its slot has a running and a next unit"


def test_a_cell_that_ends_two_processes_is_crashed_and_the_rest_continues() -> None:
    ledger = Ledger([piece("case", cells=3)])
    (first,) = sent(ledger, place("a"), place("b"))
    ledger.record_start(first, "a", "case/0@null:eager")
    assert ledger.record_end(first, "case/0@null:eager")
    ledger.record_start(first, "a", "case/1@null:eager")
    assert ledger.record_death(first, "case/1@null:eager", "a: SIGSEGV", final=False).dead is None
    (second,) = sent(ledger, place("a"), place("b"))
    sent_item = ledger.sent_items[second]
    assert sent_item.item.cells == ("case/1@null:eager", "case/2@null:eager")
    assert sent_item.item.avoid == {"a"}
    ledger.record_start(second, "b", "case/1@null:eager")
    assert ledger.record_death(second, "case/1@null:eager", "b: SIGSEGV", final=False).dead
    assert ledger.attempts["case/1@null:eager"] == ["a: SIGSEGV", "b: SIGSEGV"]
    ((third, cells),) = sent(ledger, place("a"), place("b")).items()
    assert cells == ("case/2@null:eager",)
    ledger.record_end(third, "case/2@null:eager")
    ledger.finish_unit(third)
    assert ledger.is_over


def test_a_timeout_is_not_tried_again() -> None:
    ledger = Ledger([piece("case")])
    (key,) = sent(ledger, place("a"))
    ledger.record_start(key, "a", "case/0@null:eager")
    assert ledger.record_death(key, "case/0@null:eager", "a: timeout", final=True).dead
    assert ledger.is_over


def test_a_lost_worker_costs_the_cell_that_ran() -> None:
    ledger = Ledger([piece("case", cells=2)])
    (key,) = sent(ledger, place("a"), place("b"))
    ledger.record_start(key, "a", "case/0@null:eager")
    assert ledger.record_loss(key, "it died").dead is None
    assert ledger.attempts == {"case/0@null:eager": ["a was lost: it died"]}
    ((again, cells),) = sent(ledger, place("b")).items()
    assert len(cells) == 2
    # The first worker was disconnected, not dead: its late record counts once.
    assert ledger.record_end(key, "case/0@null:eager")
    ledger.record_start(again, "b", "case/0@null:eager")
    assert not ledger.record_end(again, "case/0@null:eager")


def test_a_cell_that_every_worker_refuses_ends_with_the_reason() -> None:
    ledger = Ledger([piece("case", cells=2)])
    for _ in range(20):
        for key in sent(ledger, place("a")):
            verdict = ledger.record_refusal(key, "a", "no such suite")
            if verdict.abandoned:
                assert verdict.reason == "no such suite"
                assert len(verdict.abandoned) == 2
                assert ledger.is_over
                return
    pytest.fail("it is sent for ever")


def test_a_runtime_that_joins_later_gets_waiting_cells() -> None:
    emulating, native = place("linux", mlx="emulated"), place("mac", mlx="native")
    work = [
        WorkItem("suites/a.py", f"case{number}", (f"case{number}@mlx:fp32",)) for number in range(9)
    ]
    ledger = Ledger(work)
    first = list(ledger.take_sendable([emulating]))
    assert {sent_item.needed for _, sent_item in first} == {frozenset({"emulated:mlx"})}
    then = list(ledger.take_sendable([emulating, native]))
    assert {sent_item.needed for _, sent_item in then} == {frozenset({"native:mlx"})}


EVENTS = ("ends", "dies", "is lost", "refuses", "answers", "ends late")


@settings(max_examples=200, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    fates=st.lists(st.tuples(st.integers(0, 7), st.sampled_from(EVENTS)), max_size=120),
)
def test_each_cell_ends_exactly_once(sizes: list[int], fates: list[tuple[int, str]]) -> None:
    ledger = Ledger([piece(f"case{number}", size) for number, size in enumerate(sizes)])
    expected = {
        cell for number, size in enumerate(sizes) for cell in piece(f"case{number}", size).cells
    }
    ends: Counter[str] = Counter()
    places = [place("a"), place("b")]
    gone: list[tuple[str, str]] = []  # cells of units that were lost, with the unit's key

    def happen(key: str, fate: str) -> None:
        sent_item = ledger.sent_items[key]
        if fate == "ends late":
            for old, cell in gone[:1]:
                assert not ledger.record_start(old, "a", cell)
                ends[cell] += ledger.record_end(old, cell)
            del gone[:1]
            return
        cell = next(iter(sent_item.open), None)
        worker = "a" if "a" not in sent_item.item.avoid else "b"
        if cell is not None and fate != "refuses":
            ledger.record_start(key, worker, cell)
        if fate == "ends" and cell is not None:
            ends[cell] += ledger.record_end(key, cell)
            return
        if fate == "answers" or cell is None:
            ledger.finish_unit(key)
            return
        gone.extend((key, each) for each in sent_item.open)
        verdict = (
            ledger.record_death(key, cell, f"{worker}: died", final=False)
            if fate == "dies"
            else ledger.record_loss(key, "it died")
            if fate == "is lost"
            else ledger.record_refusal(key, worker, "no")
        )
        ends.update([verdict.dead] if verdict.dead else [])
        ends.update(verdict.abandoned)

    for which, fate in fates:
        list(ledger.take_sendable(places))
        keys = list(ledger.sent_items)
        if keys:
            happen(keys[which % len(keys)], fate)
    for _ in range(10_000):
        list(ledger.take_sendable(places))
        if ledger.is_over:
            break
        happen(next(iter(ledger.sent_items)), "ends")
        for key in [key for key, sent_item in ledger.sent_items.items() if not sent_item.open]:
            ledger.finish_unit(key)
    assert ledger.is_over
    assert set(ends) == expected
    assert set(ends.values()) == {1}
