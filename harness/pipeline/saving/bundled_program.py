"""Make a BundledProgram: a program with inputs and expected outputs for ExecuTorch's runners."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from harness.errors import InputError

_METHOD = "forward"


def make_bundle(
    program: bytes, calls: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]
) -> bytes:
    """Make the bytes of a ``.bpte`` with one test case for each call.

    Args:
        program: the bytes of the ``.pte``.
        calls: flat inputs of each call: tensors, ints, floats, bools.
        expected: expected outputs of each call, in the program's order and dtypes.

    Raises:
        InputError: the format does not support a type of an input or output.
    """
    for number, (inputs, outputs) in enumerate(zip(calls, expected, strict=True)):
        _check(f"call {number} takes", inputs, (torch.Tensor, int, float, bool))
        _check(f"call {number} returns", outputs, (torch.Tensor,))
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.core import BundledProgram
    from executorch.devtools.bundled_program.serialize import (
        serialize_from_bundled_program_to_flatbuffer as serialize,
    )

    cases = [
        MethodTestCase(
            inputs=list(map(_plain, inputs)), expected_outputs=list(map(_plain, outputs))
        )
        for inputs, outputs in zip(calls, expected, strict=True)
    ]
    # BundledProgram reads a serialized program from a file only.
    with tempfile.NamedTemporaryFile(suffix=".pte") as file:
        Path(file.name).write_bytes(program)
        made = BundledProgram(None, [MethodTestSuite(_METHOD, cases)], file.name)
        data: bytes = serialize(made)
    return data


def _check(where: str, values: Sequence[Any], allowed: tuple[type, ...]) -> None:
    for index, value in enumerate(values):
        if not isinstance(value, allowed):
            names = ", ".join(kind.__name__ for kind in allowed)
            raise InputError(
                f"{where} {type(value).__name__} at {index}; a bundle supports only {names}"
            )


def _plain(value: Any) -> Any:
    """A tensor without its subclass; the bundle copies its memory."""
    return torch.Tensor.detach(value) if isinstance(value, torch.Tensor) else value
