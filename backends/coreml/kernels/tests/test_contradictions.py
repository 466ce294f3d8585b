"""Kernels follow the documentation where value inference of coremltools contradicts it."""

import numpy
import pytest
import torch

from backends.coreml.kernels.tests.contradictions import (
    CONTRADICTIONS,
    observe,
    observe_changed_constant,
    observe_runtime_mask,
)
from backends.coreml.kernels.tests.folding import build, compute, infer, load_mil
from harness import UnsupportedProgram


@pytest.mark.parametrize("title", CONTRADICTIONS)
def test_kernel_has_the_documented_value(title):
    case = CONTRADICTIONS[title]
    (result,) = compute(case.name, **case.inputs)
    assert result.tolist() == case.documented


@pytest.mark.parametrize("title", CONTRADICTIONS)
def test_coremltools_contradicts_it(title):
    load_mil()
    case = CONTRADICTIONS[title]
    observed = observe(case)
    assert observed == case.observed or numpy.array_equal(observed, case.observed, equal_nan=True)
    if observed == case.documented:  # then the shape is wrong
        (declared,) = infer(case.name, case.opset, **case.inputs)
        assert declared.shape != numpy.shape(case.documented)


def test_attention_is_folded_without_its_mask():
    load_mil()
    x = numpy.arange(4, dtype=numpy.float32).reshape(1, 2, 2)
    inputs = {"query": x, "key": x, "value": x}
    (unmasked,) = compute("scaled_dot_product_attention", **inputs)
    assert observe_runtime_mask() == pytest.approx(unmasked.numpy())


def test_thresholded_relu_changes_a_constant():
    load_mil()
    assert observe_changed_constant() == [0, 3]
    x = torch.tensor([1.0, 3.0])
    compute("thresholded_relu", x=x, alpha=2.0)
    assert x.tolist() == [1, 3]


def test_default_mode_of_scatter():
    inputs = {"data": numpy.zeros(2, numpy.float32), "indices": numpy.array([0], numpy.int32),
              "updates": numpy.ones(1, numpy.float32)}  # fmt: skip
    operation = build("scatter", **inputs).op
    assert operation.mode.val == "add"
    assert "Default value is ``update``" in type(operation).__doc__


def test_ceil_mode_adds_a_window_behind_the_input():
    # The docstring calls the mode torch's, whose result has two windows.
    inputs = {"x": numpy.arange(6, dtype=numpy.float32).reshape(1, 1, 6), "kernel_sizes": [2],
              "strides": [3], "pad_type": "valid", "ceil_mode": True}  # fmt: skip
    (declared,) = infer("max_pool", **inputs)
    assert declared.shape == (1, 1, 3)
    tensor = torch.from_numpy(inputs["x"])
    assert torch.max_pool1d(tensor, 2, 3, ceil_mode=True).shape == (1, 1, 2)
    with pytest.raises(UnsupportedProgram, match="max_pool: ceil_mode adds a window without"):
        compute("max_pool", **inputs)
