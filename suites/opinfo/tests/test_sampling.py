"""OpInfo samples become programs that compute the same values as torch's operator."""

from __future__ import annotations

import gc
import json
from types import GeneratorType
from typing import Any

import pytest
import torch

from suites.opinfo import choose
from suites.opinfo.operators import CASES
from suites.opinfo.sampling import DTYPES, EXCLUDED, Pick, core_operators, entries, program, samples


def sample(*inputs: Any, **options: Any) -> Any:
    """Make a SampleInput; imported here because the import takes seconds."""
    from torch.testing._internal.opinfo.core import SampleInput

    return SampleInput(*inputs, **options)


def test_every_entry_of_the_core_set_is_a_case_or_listed_as_excluded() -> None:
    named = set(json.loads(choose.CHOSEN.read_text(encoding="utf-8")))
    assert named <= set(entries())
    assert {"add", "nn.functional.conv2d", "softmax", "scatter_reduce/mean"} <= named
    for name in set(entries()) - named:
        assert not list(choose._usable(entries()[name], "float32")), name
    assert not named & set(EXCLUDED)
    assert {"add", "convolution", "index_put"} <= core_operators()


def test_names_are_unique_and_each_dtype_is_there() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert {dtype for case in CASES for dtype in case.tags if dtype in DTYPES} == set(DTYPES)


def test_a_plain_run_has_one_program_per_operator() -> None:
    by_day = [case for case in CASES if case.plain_targets]
    assert len({case.name.split("/")[1] for case in by_day}) == len(by_day)
    assert all("float32" in case.tags for case in by_day)


def test_no_generator_of_torch_outlives_its_build() -> None:
    gc.disable()  # it would end them, amid a trace for example
    try:
        Pick("flip", "float32", 0, False).build()
        # Not isinstance, which dereferences dead weak references.
        left = [item for item in gc.get_objects() if type(item) is GeneratorType]
    finally:
        gc.enable()
    assert "sample_inputs_flip" not in {generator.__name__ for generator in left}


@pytest.mark.parametrize("strided", [False, True])
def test_a_program_computes_the_result_of_the_operator(strided: bool) -> None:
    left, right = torch.randn(3, 4), torch.randn(3, 4)
    info = entries()["add"]
    module, inputs = program(info, sample(left, args=(right,), kwargs={"alpha": 2}), strided)
    assert torch.equal(module(*inputs), torch.add(left, right, alpha=2))
    assert all(given.is_contiguous() for given in inputs)
    assert tuple(inputs[0].shape) == ((4, 3) if strided else (3, 4))


def test_the_operator_gets_strided_inputs() -> None:
    seen: list[torch.Tensor] = []

    class Info:
        op = staticmethod(lambda x: seen.append(x) or x)

    module, inputs = program(Info(), sample(torch.randn(3, 4)), True)
    module(*inputs)
    assert not seen[0].is_contiguous()


def test_a_list_of_tensors_is_so_many_inputs() -> None:
    rows = [torch.randn(2, 3), torch.randn(1, 3)]
    module, inputs = program(entries()["cat"], sample(rows, args=(0,)), False)
    assert len(inputs) == 2
    assert torch.equal(module(*inputs), torch.cat(rows))


def test_inputs_are_those_of_the_seed() -> None:
    (case,) = (case for case in CASES if case.name == "opinfo/mm/float32_0")
    first, again, other = case.make(0), case.make(0), case.make(1)
    assert all(map(torch.equal, first.tensors, again.tensors))
    assert not all(map(torch.equal, first.tensors, other.tensors))


def test_a_sample_that_torch_does_not_have_is_named() -> None:
    with pytest.raises(LookupError, match=r"no sample 100000 of add in float32; python -m suites"):
        Pick("add", "float32", 100_000, strided=False).build()
    with pytest.raises(LookupError, match="of gone"):
        Pick("gone", "float32", 0, strided=False).build()


@pytest.mark.nightly
def test_samples_are_those_of_the_installed_torch() -> None:
    found = choose.choose_samples()
    assert choose._find_changed(json.loads(choose.CHOSEN.read_text(encoding="utf-8")), found) == []


def test_entries_yield_nothing_for_a_dtype_they_lack() -> None:
    assert list(samples(entries()["bitwise_and"], "float32")) == []
