"""Any payload gives results or one typed error in a short time; never a crash, hang or flood.

Each payload is executed in a worker process, which a defect may take along.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from hypothesis import given, reject, settings, strategies as st

from backends.mlx.execution.tests.assembled import PROGRAMS, Assembled
from backends.mlx.execution.tests.execution import Worker
from backends.mlx.payload import reader
from backends.mlx.payload.graph import PayloadError
from backends.mlx.payload.payload_text import list_instructions
from backends.mlx.payload.tests import hostile
from backends.mlx.payload.tests.payloads import NAMES, encode, graph, mlx, real, slot, tensor_meta
from backends.mlx.payload.tests.test_payload_fuzz import (
    EDITS,
    NIGHTLY,
    SETTINGS,
    Edit,
    edited_bytes,
    encode_edited,
)

Edited = Callable[[int, list[Edit]], tuple[bytes, dict[str, bytes]]]

SCALAR_TYPES = {"float16": 5, "float32": 6, "int32": 3, "int64": 4, "uint32": 28, "bool": 11}


def assembled(program: Assembled) -> mlx.MLXGraph:
    """The graph that an assembled program runs, its inputs declared."""
    arrays = [numpy.asarray(item) for item in program.inputs if not isinstance(item, int)]
    numbers, count = len(program.inputs) - len(arrays), len(arrays)
    chains = program.nodes(*map(mlx.Tid, range(count + 9)))
    return graph(
        *(chains if isinstance(chains[0], list) else [list(chains)]),
        num_input_tensors=count,
        num_output_tensors=1,
        input_map=[*map(slot, range(count)), *(slot(number, 1) for number in range(numbers))],
        output_map=[slot(count)],
        tensor_meta=[
            tensor_meta(*array.shape, scalar_type=SCALAR_TYPES.get(array.dtype.name, 6))
            for array in arrays
        ],
    )


@functools.cache
def seeds() -> tuple[tuple[mlx.MLXGraph, dict[str, bytes]], ...]:
    """Programs that run: lowered ones, and programs that executorch never emits."""
    lowered = [(given, delegate.named_data) for delegate, given in map(real, NAMES)]
    # Most of the others are single nodes; lowered programs are drawn as often as they are.
    return (*lowered * 8, *((assembled(program), {}) for program in PROGRAMS.values()))


def edited_graph(seed: int, edits: list[Edit]) -> tuple[bytes, dict[str, bytes]]:
    given, named = seeds()[seed % len(seeds())]
    return encode_edited(given, edits), named


def loads(data: bytes) -> bool:
    try:
        reader.load(data)
    except PayloadError:
        return False
    return True


def shown(data: bytes) -> Iterator[str]:
    try:
        yield from list_instructions(reader.load(data))
    except Exception as error:  # Only the defect matters.
        yield f"(no listing: {error})"


def check(worker: Worker, data: bytes, named: dict[str, bytes], seed: int) -> str:
    outcome = worker(data, named, seed)
    assert not outcome.is_defect, "\n".join((*outcome, *shown(data)))
    return outcome.kind


SEEDS = st.integers(0, 2**32 - 1)


def execute_edited(worker: Worker, given_settings: Any, make: Edited, starts: int) -> Counter[str]:
    """Execute a mutation of one of ``starts`` initial programs, if it loads."""
    seen: Counter[str] = Counter()

    @given_settings
    @given(st.integers(0, starts - 1), EDITS, SEEDS)
    def run(start: int, edits: list[Edit], seed: int) -> None:
        data, named = make(start, edits)
        if not loads(data):
            reject()
        seen[check(worker, data, named, seed)] += 1

    run()
    return seen


execute_edited_graphs = functools.partial(execute_edited, make=edited_graph, starts=2**16 + 1)
execute_edited_bytes = functools.partial(execute_edited, make=edited_bytes, starts=64)


def execute_hostile(worker: Worker, given_settings: Any) -> Counter[str]:
    seen: Counter[str] = Counter()

    @given_settings
    @given(st.sampled_from(hostile.KINDS), SEEDS)
    def run(kind: str, seed: int) -> None:
        try:
            data = encode(hostile.program(kind, seed))
        except TypeError:  # numbers out of their type's range
            reject()
        seen[check(worker, data, {}, seed)] += 1

    run()
    return seen


@pytest.mark.nightly
def test_edited_graphs_give_results_or_are_refused(worker: Worker) -> None:
    seen = execute_edited_graphs(worker, settings(SETTINGS, max_examples=300))
    assert seen["results"] > 60
    assert seen["refused"] > 60


@pytest.mark.nightly
def test_edited_bytes_give_results_or_are_refused(worker: Worker) -> None:
    seen = execute_edited_bytes(worker, settings(SETTINGS, max_examples=60))
    assert seen["results"] > 5


@pytest.mark.nightly
def test_hostile_nodes_give_results_or_are_refused(worker: Worker) -> None:
    seen = execute_hostile(worker, settings(SETTINGS, max_examples=600))
    assert seen["results"] > 200
    assert seen["refused"] > 100


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("crash", "died", "SIGSEGV"),
        ("hang", "died", "took too long"),
        ("memory", "died", "SIGSEGV"),
        ("error", "raised", "KeyError: 'planted'"),
    ],
)
def test_a_defect_is_noticed_and_the_worker_continues(
    worker: Worker, fault: str, kind: str, said: str
) -> None:
    negate = encode(
        graph(
            [mlx.NegNode(x=mlx.Tid(0), out=mlx.Tid(1))],
            num_input_tensors=1,
            num_output_tensors=1,
            input_map=[slot(0)],
            output_map=[slot(1)],
            tensor_meta=[tensor_meta(2, 3)],
        )
    )
    outcome = worker(negate, {}, 0, fault=fault, seconds=1.0 if fault == "hang" else 10.0)
    assert outcome.is_defect
    assert outcome.kind == kind
    assert said in outcome.detail
    assert worker(negate, {}, 0) == ("results", "(2, 3)")


@pytest.mark.nightly
def test_many_edited_graphs(worker: Worker) -> None:
    assert execute_edited_graphs(worker, settings(NIGHTLY, max_examples=6_000)).total() > 5_000


@pytest.mark.nightly
def test_many_edited_bytes(worker: Worker) -> None:
    execute_edited_bytes(worker, settings(NIGHTLY, max_examples=1_000))


@pytest.mark.nightly
def test_many_hostile_nodes(worker: Worker) -> None:
    assert execute_hostile(worker, settings(NIGHTLY, max_examples=10_000)).total() > 5_000
