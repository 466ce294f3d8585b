"""The TOSA reference model in a child process, and the messages to and from it.

The model ends the process it runs in when it fails an assertion or reads beyond its memory, which
a graph that our own lowering did not write may well bring about. Imports no torch: a child is
ready as soon as NumPy and the model are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy


class Array(msgspec.Struct, array_like=True):
    """An array: NumPy's code of its type, such as ``<f4``, its shape, its elements in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview

    @classmethod
    def of(cls, array: numpy.ndarray[Any, Any]) -> Array:
        """An array as it travels."""
        return cls(array.dtype.str, array.shape, memoryview(array.tobytes()))

    def array(self) -> numpy.ndarray[Any, Any]:
        """What travelled; not writable.

        Raises:
            ValueError: the data does not fill the shape.
        """
        return numpy.frombuffer(self.data, numpy.dtype(self.dtype)).reshape(self.shape)


class Request(msgspec.Struct, array_like=True):
    """Run a graph.

    Attributes:
        graph: a name for it.
        inputs: in the graph's order.
        file: holds the flatbuffer, which may be as large as the weights of a model; empty where
            the child has read it under that name before.
    """

    graph: str
    inputs: list[Array]
    file: str = ""


class Result(msgspec.Struct, array_like=True):
    """What came of a request.

    Attributes:
        status: the model's, such as ``GraphStatus.TOSA_VALID``; empty when the child does not
            know the graph.
        outputs: in the graph's order.
    """

    status: str = ""
    outputs: list[Array] = []


# Graphs that the child knows; the one that was sent first goes first.
_KNOWN: dict[str, bytes] = {}
_KEPT_GRAPHS = 32


def answer(request: bytes) -> bytes:
    """Run what a :class:`Request` asks for and answer with a :class:`Result`."""
    asked = msgspec.msgpack.decode(request, type=Request)
    if asked.file:
        if len(_KNOWN) >= _KEPT_GRAPHS:
            del _KNOWN[next(iter(_KNOWN))]
        _KNOWN[asked.graph] = Path(asked.file).read_bytes()
    if asked.graph not in _KNOWN:
        return msgspec.msgpack.encode(Result())
    outputs, status = model()(
        _KNOWN[asked.graph],
        [sent.array() for sent in asked.inputs],
        verbosity="NONE",
        initialize_variable_tensor_from_numpy=1,
    )
    return msgspec.msgpack.encode(Result(str(status), [Array.of(array) for array in outputs]))


def model() -> Any:
    """The reference model; imported where it runs."""
    import tosa_reference_model

    return tosa_reference_model.run
