"""Outputs in files, read back by the libraries of the formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from safetensors.torch import load

from harness.errors import InputError
from harness.model.files.input_files import read_inputs
from harness.model.files.output_files import check_suffix, encode

X = torch.randn(2, 3)
CALLS = [[X, 3], [X.t(), 4]]


def test_a_list_a_call(tmp_path: Path) -> None:
    path = tmp_path / "y.pt"
    path.write_bytes(encode(path, [[X, None, "text"], [X, 1, True]]))
    (first, second), _ = read_inputs(path)
    assert first[1:] == [None, "text"]
    assert second[1:] == [1, True]
    assert torch.equal(first[0], X)


def test_arrays_by_name(tmp_path: Path) -> None:
    path = tmp_path / "y.npz"
    path.write_bytes(encode(path, CALLS))
    with numpy.load(path) as found:
        assert sorted(found) == ["call0.output0", "call0.output1", "call1.output0", "call1.output1"]
        assert numpy.array_equal(found["call1.output0"], X.t().numpy())
        assert found["call0.output1"] == 3
    assert encode(path, CALLS[:1]).startswith(b"PK")


def test_safetensors_support_dtypes_numpy_lacks_and_shared_memory() -> None:
    half = X.bfloat16()
    found = load(encode(Path("y.safetensors"), [[half, half, half[0]]]))
    assert sorted(found) == ["output0", "output1", "output2"]
    assert torch.equal(found["output2"], half[0])


@pytest.mark.parametrize(
    ("name", "outputs", "problem"),
    [
        ("y.csv", [X], r"written as \.pt, \.npz, \.safetensors"),
        ("y.npz", [X, None], "output 1 is None: .npz has no such type"),
        ("y.npz", [X.bfloat16()], "bfloat16: NumPy has no such dtype"),
        ("y.safetensors", ["text"], "output 0 is 'text'"),
    ],
)
def test_an_unsupported_value_is_a_clear_error(name: str, outputs: list[Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        encode(Path(name), [outputs])


def test_the_format_can_be_checked_before_there_are_outputs() -> None:
    check_suffix(Path("Y.PT"))
    with pytest.raises(InputError):
        check_suffix(Path("y"))
