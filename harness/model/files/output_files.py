"""Encode the outputs of calls as a .pt, .npz or .safetensors file."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch

from harness.errors import InputError


def check_suffix(path: Path) -> None:
    """Refuse a file name whose suffix is not supported for outputs.

    Raises:
        InputError: the message names the supported suffixes.
    """
    if path.suffix.lower() not in _WRITERS:
        raise InputError(
            f"{path}: unknown file type; outputs can be written as {', '.join(_WRITERS)}"
        )


def encode(path: Path, calls: Sequence[Sequence[Any]]) -> bytes:
    """Encode the outputs of calls in the format of the file's suffix.

    ``.pt`` contains one list of outputs per call. ``.npz`` and ``.safetensors`` contain tensors
    named ``output0``, ``output1``, ...; with several calls, the names begin with ``call0.``.
    Numbers become 0-D tensors.

    Raises:
        InputError: the format is unknown, or does not support the type of an output.
    """
    check_suffix(path)
    return _WRITERS[path.suffix.lower()](calls)


def _encode_pt(calls: Sequence[Sequence[Any]]) -> bytes:
    buffer = io.BytesIO()
    torch.save([list(outputs) for outputs in calls], buffer)
    return buffer.getvalue()


def _name_tensors(calls: Sequence[Sequence[Any]], suffix: str) -> dict[str, torch.Tensor]:
    found = {}
    for call, outputs in enumerate(calls):
        for number, value in enumerate(outputs):
            if value is None or isinstance(value, str):
                raise InputError(
                    f"output {number} is {value!r}: {suffix} has no such type; use .pt"
                )
            name = f"call{call}.output{number}" if len(calls) > 1 else f"output{number}"
            found[name] = torch.as_tensor(value).contiguous()
    return found


def _encode_npz(calls: Sequence[Sequence[Any]]) -> bytes:
    arrays = {}
    for name, tensor in _name_tensors(calls, ".npz").items():
        try:
            arrays[name] = tensor.numpy()
        except TypeError as error:
            raise InputError(
                f"{name} is {tensor.dtype}: NumPy has no such dtype; use .pt or .safetensors"
            ) from error
    buffer = io.BytesIO()
    numpy.savez(buffer, **arrays)
    return buffer.getvalue()


def _encode_safetensors(calls: Sequence[Sequence[Any]]) -> bytes:
    from safetensors.torch import save

    # Outputs may share memory; the format does not allow it.
    return save(
        {name: value.clone() for name, value in _name_tensors(calls, ".safetensors").items()}
    )


_WRITERS: dict[str, Callable[[Sequence[Sequence[Any]]], bytes]] = {
    ".pt": _encode_pt,
    ".npz": _encode_npz,
    ".safetensors": _encode_safetensors,
}
