"""Guided search varies programs that execute new lowering code, and reports the code."""

from __future__ import annotations

import random

import pytest
import torch
from click.testing import CliRunner

from harness.cli.fuzz import fuzz
from harness.coverage.recorder import ArcRecorder
from harness.extras.fuzzing.generated_program import GeneratedProgram
from harness.extras.fuzzing.guided import (
    GuidedSearch,
    NewCode,
    ReachingProgram,
    draw_choices,
    vary,
)
from harness.extras.fuzzing.judges import find_known_causes
from harness.extras.fuzzing.search import Finding, Problem
from harness.extras.fuzzing.worker import list_places
from harness.pipeline import speed
from harness.record.target import Target


def convert(program: GeneratedProgram) -> None:
    """Export a program and convert it to the edge dialect, which executes code of exir."""
    from executorch.exir import EdgeCompileConfig, to_edge

    module, inputs = program.make_case().build()
    with torch.no_grad():
        try:
            exported = torch.export.export(module, inputs)
        except Exception:  # a program that torch.export refuses; shrinking makes some
            return
        to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))


@pytest.fixture(autouse=True)
def _all_code() -> None:
    speed.uninstall()


def test_variations_are_programs_and_the_same_for_the_same_seed() -> None:
    drawn = [draw_choices(random.Random(seed)) for seed in range(8)]
    varied = [vary(one, drawn, random.Random(seed)) for seed, one in enumerate(drawn)]
    assert varied == [vary(one, drawn, random.Random(seed)) for seed, one in enumerate(drawn)]
    assert sum(one != two for one, two in zip(drawn, varied, strict=True)) >= 6
    assert any(one.build(may_draw=False) for one in varied)
    assert all(one.steps for one in varied)


@pytest.mark.nightly
def test_what_is_known_is_not_new() -> None:
    program = next(filter(None, (draw_choices(random.Random(i)).build(may_draw=False)
                                 for i in range(9))))  # fmt: skip
    convert(program)  # fills caches
    recorder = ArcRecorder()
    recorder.start()
    convert(program)
    executed = recorder.stop()
    assert any(name.startswith("executorch/exir/") for name in executed)

    code = NewCode({})
    assert code.execute(lambda: convert(program))[1:] != ({}, False)
    assert code.execute(lambda: convert(program))[1:] == ({}, False)
    assert NewCode(executed).execute(lambda: convert(program))[1:] == ({}, False)


@pytest.mark.nightly
def test_a_program_that_reaches_new_code_is_reported_small() -> None:
    known: dict[str, set[tuple[int, int]]] = {}
    recorder = ArcRecorder()
    for seed in range(2):
        program = draw_choices(random.Random(seed)).build(may_draw=False)
        assert program is not None
        convert(program)
        recorder.start()
        convert(program)
        for name, arcs in recorder.stop().items():
            known.setdefault(name, set()).update(arcs)

    search = GuidedSearch(convert, NewCode(known), seed=5)
    found = next(filter(None, (search.try_next() for _ in range(20))))
    assert isinstance(found, ReachingProgram)
    assert found.places
    recorder.start()
    convert(found.program)
    executed = recorder.stop()
    for name, lines in found.places.items():
        assert lines <= {line for arc in executed[name] for line in arc}
        assert lines.isdisjoint({line for arc in known.get(name, ()) for line in arc})
    assert found.program.step_count <= 6


def test_a_red_program_is_a_finding() -> None:
    def judge(program: GeneratedProgram) -> Problem | None:
        return Problem("wrong", "it multiplies") if "torch.mul" in program.source else None

    search = GuidedSearch(judge, NewCode({}), seed=0)
    found = next(filter(None, (search.try_next() for _ in range(200))))
    assert isinstance(found, Finding)
    assert "torch.mul" in found.program.source
    assert found.program.step_count <= 3


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("given", "steps", "said"),
    [
        ("torch.randint(-4, 5, (5, 3))", ("v0 = torch.ops.aten.mul.Scalar(x0, 0.1)",),
         "convert a Python number to the dtype of the tensor"),
        ("torch.randn(2, 3) > 0", ("v0 = torch.ops.aten.add.Scalar(x0, 3)",),
         "convert a Python number to the dtype of the tensor"),
        ("torch.randn(4, 4)", ("v1 = x0.long()", "v0 = x0 + v1"), "casts"),
    ],
)  # fmt: skip
def test_a_finding_says_its_known_issue(given: str, steps: tuple[str, ...], said: str) -> None:
    program = GeneratedProgram((given,), (), steps, ("v0",))
    (cause,) = find_known_causes(program, Target.parse("mlx:fp32"), seed=0)
    assert said in cause


def test_places_are_ranges() -> None:
    assert list_places({"b.py": {7}, "a.py": {3, 4, 5, 9}}) == ["a.py:3-5", "a.py:9", "b.py:7"]


def test_a_recording_guides_only_a_guided_search() -> None:
    result = CliRunner().invoke(fuzz, ["--recorded", "."])
    assert result.exit_code == 2
    assert "--recorded needs --guided" in result.output
