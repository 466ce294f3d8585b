"""Inputs from files: ``.pt``, ``.npy``, ``.npz``, ``.safetensors``, images and ``.wav``.

Nothing in a file is executed: pickles are loaded with ``weights_only``, arrays of objects refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch

from harness.errors import InputError, describe
from harness.model.files import media

CallArguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional inputs and keyword inputs of one call."""


def read_inputs(path: Path, like: Sequence[torch.Tensor] = ()) -> CallArguments:
    """Read the inputs of one call.

    ==================================  ===========================================================
    ``.pt``, ``.pth``                   a tensor; a list or tuple of inputs; a dict of keyword
                                        inputs; or a dict of ``args`` and ``kwargs`` alone
    ``.npy``                            one array, one input
    ``.npz``, ``.safetensors``          keyword inputs by name; positional where the names are
                                        ``0``, ``1``, ... or ``arr_0``, ``arr_1``, ...
    ``.png``, ``.jpg``, ``.bmp``, ...   uint8 (height, width, channels), as Pillow decodes it: 1
                                        channel gray, 3 RGB, 4 with alpha; 16-bit gray is uint16
    ``.wav``                            float32 (channels, samples); integers scaled to [-1, 1)
    ==================================  ===========================================================

    Args:
        path: the file; its suffix determines the format.
        like: examples of the positional inputs in order; only shape and dtype count, so meta
            tensors suffice. An image or audio file is brought into the layout of the
            first, see :func:`harness.model.files.media.fit_array`; other files stay unchanged.

    Raises:
        InputError: the file is missing, damaged, of an unknown kind, or contains a value that is no
            input.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"{path}: inputs are read from {' '.join(_READERS)}, not from "
            f"{path.suffix or 'a file without a suffix'}"
        )
    if path.is_dir():
        raise InputError(f"{path} is a folder; inputs are read from a file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read = reader(path)
        if isinstance(read, media.Array):
            return (media.fit_array(read, like[0]) if like else read.tensor,), {}
        for where, value in [*enumerate(read[0]), *read[1].items()]:
            _check(f"input {where}", value)
        return read
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except Exception as error:
        # Each library has its own way to say that a file is cut short or is none of its kind.
        raise InputError(f"{path} cannot be read: {describe(error, 200)}") from error


def _check(where: str, value: Any) -> None:
    """Refuse a value that is neither a tensor, a number nor a container of these."""
    match value:
        case torch.Tensor() | bool() | int() | float() | str() | None:
            pass
        case list() | tuple():
            for number, item in enumerate(value):
                _check(f"{where}[{number}]", item)
        case dict():
            for key, item in value.items():
                _check(f"{where}[{key!r}]", item)
        case _:
            raise InputError(
                f"{where} is a {type(value).__name__}; inputs are tensors, numbers, and lists, "
                f"tuples and dicts of them"
            )


def _load_pickle(path: Path) -> CallArguments:
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:
        # The unpickler takes any bytes for its program and fails in as many ways.
        found = re.search(r"(?:GLOBAL|class) ([\w.]+)", str(error))
        if found is None:
            raise InputError("it is cut short, or no file of torch.save") from error
        raise InputError(
            f"it holds a {found[1]}, which would execute code; save tensors, numbers, and lists, "
            f"tuples and dicts of them"
        ) from error
    match loaded:
        case list() | tuple():
            return tuple(loaded), {}
        case {"args": list() | tuple() as args, "kwargs": dict() as kwargs} if len(loaded) == 2:
            return tuple(args), _check_names(kwargs)
        case dict():
            return _sort_numbered(_check_names(loaded))
        case _:
            return (loaded,), {}


def _check_names(values: Mapping[Any, Any]) -> dict[str, Any]:
    if strange := [key for key in values if not isinstance(key, str)]:
        raise InputError(f"a dict of inputs has the key {strange[0]!r}; keys are names")
    return dict(values)


def _sort_numbered(values: Mapping[str, Any]) -> CallArguments:
    """Values whose names are ``0``, ``1``, ... or as ``numpy.savez`` numbers them come first."""
    numbers = {
        int(found[1]): name
        for name in values
        if (found := re.fullmatch(r"(?:arr_)?(0|[1-9][0-9]{0,8})", name))
    }
    if sorted(numbers) != list(range(len(numbers))):
        raise InputError(
            f"its numbered inputs are {', '.join(map(str, sorted(numbers)))}; they count from 0"
        )
    args = tuple(values[numbers[number]] for number in range(len(numbers)))
    return args, {name: value for name, value in values.items() if name not in numbers.values()}


def _array(path: Path) -> CallArguments:
    # Opened here: numpy leaves the file of a damaged archive open.
    with path.open("rb") as file:
        loaded = numpy.load(file, allow_pickle=False)
        if not isinstance(loaded, numpy.ndarray):
            raise InputError("it is no array of numpy.save")
        return (_tensor(loaded),), {}


def _arrays(path: Path) -> CallArguments:
    with path.open("rb") as file:
        loaded = numpy.load(file, allow_pickle=False)
        if isinstance(loaded, numpy.ndarray):
            raise InputError("it is one array; name it .npy")
        with loaded as archive:
            return _sort_numbered({name: _tensor(archive[name]) for name in archive.files})


def _tensor(array: numpy.ndarray[Any, Any]) -> torch.Tensor:
    """The array as a tensor of its own, in the byte order of this machine."""
    native = numpy.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    try:
        return torch.from_numpy(native)
    except TypeError as error:
        raise InputError(
            f"an array of {array.dtype} has no dtype in torch; what NumPy lacks, such as bfloat16, "
            f"is kept in .pt or .safetensors"
        ) from error


def _safetensors(path: Path) -> CallArguments:
    from safetensors.torch import load_file

    return _sort_numbered(load_file(path))


_READERS: dict[str, Callable[[Path], CallArguments | media.Array]] = {
    ".pt": _load_pickle,
    ".pth": _load_pickle,
    ".npy": _array,
    ".npz": _arrays,
    ".safetensors": _safetensors,
    **dict.fromkeys(media.IMAGES, media.read_image),
    **dict.fromkeys(media.AUDIO, media.read_audio),
}
