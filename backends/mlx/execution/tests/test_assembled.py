"""Instructions that executorch never emits compute correct results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import mlx.core as mx
import numpy
import pytest

from backends.mlx.execution import delegate
from backends.mlx.execution.executor import MlxExecutor
from backends.mlx.execution.tests.assembled import PROGRAMS, Assembled
from backends.mlx.payload import reader
from backends.mlx.payload.graph import Node
from backends.mlx.payload.tests.payloads import integer, mlx
from harness import ProgramError, Tester
from harness.backend_api import Program
from suites.mlx import operators


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_result_is_the_expected_one(name: str) -> None:
    program = PROGRAMS[name]
    result, expected = program.run(), numpy.asarray(program.expected)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    wide = result.astype(numpy.float64), expected.astype(numpy.float64)
    numpy.testing.assert_allclose(*wide, rtol=program.tolerance, atol=program.tolerance)


def test_integers_that_overflow_are_an_error() -> None:
    for operation in (mlx.AddIntNode, mlx.MultiplyIntNode):
        program = Assembled(
            lambda out, *_, op=operation: [
                op(a=integer(mlx.Vid(0)), b=integer(3), out=mlx.Vid(1)),
                mlx.FullNode(
                    shape=[], v=mlx.FloatOrVid.from_vid(mlx.Vid(1)), scalar_type=6, out=out
                ),
            ],
            (2**31 - 2,),
            None,
        )
        with pytest.raises(ProgramError, match="not an int32"):
            program.run()


def test_random_bits_without_a_seed_follow_the_global_one() -> None:
    program = Assembled(
        lambda out, *_: [mlx.RandomBitsNode(out=out, shape=[integer(40)], width=1)],
        (),
        None,
    )
    mx.random.seed(3)
    first, second = program.run(), program.run()
    mx.random.seed(3)
    again = program.run()
    assert first.dtype == numpy.uint8
    assert not numpy.array_equal(first, second)
    assert numpy.array_equal(first, again)


ROWS = 600


@pytest.fixture(scope="session")
def sampler() -> MlxExecutor:
    """Upstream's sampling: its condition converted to the int32 that ItemIntNode reads, and as
    many rows as make frequencies."""
    case = next(case for case in operators.CASES if case.name == "sample/greedy")
    lowered = Tester(case, "mlx:fp32").export().lower().to_executorch().serialize()
    (part,) = Program(lowered.program).delegates
    graph = reader.load(part.data)
    chains = tuple(tuple(_mended(chain)) for chain in graph.chains)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "load", lambda data: dataclasses.replace(graph, chains=chains))
        return delegate.make_executor(part)


def _mended(chain: Iterable[Node]) -> Iterator[Node]:
    for node in chain:
        if node.kind == "ItemIntNode":
            yield Node(kind="AsTypeNode", x=node.x, out=node.x, scalar_type=3)
        if node.kind == "RandomBitsNode":
            node.shape[0] = ROWS
        yield node


def sampled(sampler: MlxExecutor, logits: Any, temperature: float, k: int, p: float) -> Any:
    rows = numpy.broadcast_to(numpy.asarray(logits, numpy.float32), (ROWS, 20))
    given = mx.array(temperature, mx.float32), mx.array(k, mx.int64), mx.array(p, mx.float32)
    return numpy.array(sampler([mx.array(rows), *given])[0])


@pytest.mark.parametrize(
    ("temperature", "k", "p"), [(0.0, 20, 1.0), (0.8, 1, 1.0), (0.8, 20, 1e-6), (1e-5, 20, 1.0)]
)
def test_only_the_most_likely_token_is_left(
    sampler: MlxExecutor, temperature: float, k: int, p: float
) -> None:
    order = numpy.tile(numpy.arange(20.0), (ROWS, 1))
    logits = numpy.random.default_rng(0).permuted(order, axis=1)
    tokens = sampled(sampler, logits, temperature, k, p)
    assert numpy.array_equal(tokens, logits.argmax(1))


def test_tokens_are_sampled_with_their_probabilities(sampler: MlxExecutor) -> None:
    logits = numpy.log([0.5, 0.3, 0.15, 0.05, *[1e-6] * 16])
    tokens = sampled(sampler, logits, 1.0, 3, 1.0)
    counts = numpy.bincount(tokens, minlength=20)
    expected = ROWS * numpy.array([0.5, 0.3, 0.15, *[0.0] * 17]) / 0.95
    assert (abs(counts - expected) <= 5 * numpy.sqrt(expected)).all()
    # p = 0.6 keeps tokens whose cumulative probability begins below it: the first two.
    assert set(sampled(sampler, logits, 1.0, 20, 0.6).tolist()) == {0, 1}
    assert numpy.array_equal(tokens, sampled(sampler, logits, 1.0, 3, 1.0)), "the seed decides"
