"""Every program of upstream's tests is a case, in any release."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from executorch.backends.test.suite import operators

from suites.upstream.harvest import SKIPPED, UpstreamTest, harvest, iterate_parameters, make_cases
from suites.upstream.operators import CASES


def written() -> set[str]:
    """``operator/function`` of every test in upstream's sources."""
    (folder,) = operators.__path__
    return {
        f"{path.stem.removeprefix('test_')}/{node.name}"
        for path in Path(folder).glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_test_of_upstream_gives_a_case() -> None:
    found = {f"{each.operator}/{each.name}" for each in harvest()}
    assert found == written()
    assert len(found) > 400
    assert all(make_cases(each) for each in harvest())


def test_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_a_plain_run_has_one_program_per_operator() -> None:
    by_day = [case for case in CASES if case.plain_targets]
    assert {case.plain_targets for case in by_day} == {"xnnpack:fp32"}
    assert len({case.op for case in by_day}) == len(by_day)
    assert {case.op for case in CASES if SKIPPED not in case.tags} == {case.op for case in by_day}


def test_programs_that_upstream_skips_are_cases_with_a_tag() -> None:
    skipped = {case.name for case in CASES if SKIPPED in case.tags}
    assert {"upstream/relu/f32_inplace", "upstream/abs/edge_cases_0"} <= skipped
    assert "upstream/abs/dtype" not in skipped


def test_a_case_is_seeded_though_upstream_is_not() -> None:
    (case,) = (case for case in CASES if case.name == "upstream/conv2d/no_bias")
    first, again, other = case.make(0), case.make(0), case.make(1)
    for one, same in zip(first.state + first.tensors, again.state + again.tensors, strict=True):
        assert torch.equal(one, same)
    assert not torch.equal(first.tensors[0], other.tensors[0])


def test_collecting_does_not_change_random_generators() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    assert [case for each in harvest() if each.operator == "add" for case in make_cases(each)]
    assert torch.equal(torch.rand(3), expected)


class Runs:
    """Counts the programs that a test makes."""

    made = 0

    def test(self, runner: SimpleNamespace, dtype: torch.dtype) -> None:
        for size in (2, 3, 4):
            self.made += 1
            runner.lower_and_run_model(
                torch.nn.Identity().to(dtype), [torch.rand(size)], dynamic_shapes=({0: size},)
            )


def test_collecting_stops_after_the_program_is_built() -> None:
    runs = Runs()
    each = UpstreamTest("op", "test_op_sizes", (), runs.test, {"dtype": torch.float32})
    made = make_cases(each)
    assert [case.name for case in made] == [f"upstream/op/sizes_{n}" for n in range(3)]
    assert [case.dynamic_shapes for case in made] == [({0: size},) for size in (2, 3, 4)]
    runs.made = 0
    assert made[1].make().tensors[0].shape == (3,)
    assert runs.made == 2


def test_parametrize_marks_are_expanded() -> None:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
    @pytest.mark.parametrize("size", [2])
    def test_op(runner: SimpleNamespace, dtype: torch.dtype, size: int) -> None:
        raise NotImplementedError

    assert [(words, set(given)) for words, given in iterate_parameters(test_op)] == [
        (["float16"], {"dtype", "size"}),
        (["float32"], {"dtype", "size"}),
    ]
