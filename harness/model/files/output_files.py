"""Outputs as the bytes of a file."""

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
        raise InputError(f"{path}: outputs are written to {' '.join(_WRITERS)}")


def encode(path: Path, calls: Sequence[Sequence[Any]]) -> bytes:
    """The outputs of some calls, in the format of a file's suffix.

    ``.pt`` holds a list a call. ``.npz`` and ``.safetensors`` hold tensors by name: ``output0``,
    ``output1``, ..., with ``call0.`` before it where there are several calls; a number is a tensor
    without dimensions.

    Raises:
        InputError: there is no such format, or it does not have an output's type.
    """
    check_suffix(path)
    return _WRITERS[path.suffix.lower()](calls)


def _pickled(calls: Sequence[Sequence[Any]]) -> bytes:
    buffer = io.BytesIO()
    torch.save([list(outputs) for outputs in calls], buffer)
    return buffer.getvalue()


def _named(calls: Sequence[Sequence[Any]], suffix: str) -> dict[str, torch.Tensor]:
    found = {}
    for call, outputs in enumerate(calls):
        for number, value in enumerate(outputs):
            if value is None or isinstance(value, str):
                raise InputError(f"output {number} is {value!r}, which {suffix} has not; write .pt")
            name = f"call{call}.output{number}" if len(calls) > 1 else f"output{number}"
            found[name] = torch.as_tensor(value).contiguous()
    return found


def _arrays(calls: Sequence[Sequence[Any]]) -> bytes:
    arrays = {}
    for name, tensor in _named(calls, ".npz").items():
        try:
            arrays[name] = tensor.numpy()
        except TypeError as error:
            raise InputError(
                f"{name} is {tensor.dtype}, which NumPy has not; write .pt or .safetensors"
            ) from error
    buffer = io.BytesIO()
    numpy.savez(buffer, **arrays)
    return buffer.getvalue()


def _safetensors(calls: Sequence[Sequence[Any]]) -> bytes:
    from safetensors.torch import save

    # Outputs may share memory, which the format does not.
    return save({name: value.clone() for name, value in _named(calls, ".safetensors").items()})


_WRITERS: dict[str, Callable[[Sequence[Sequence[Any]]], bytes]] = {
    ".pt": _pickled,
    ".npz": _arrays,
    ".safetensors": _safetensors,
}
