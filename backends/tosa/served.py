"""Run the TOSA reference model in a child process; define its requests and results.

The model ends its process when an assertion fails or it reads outside its memory. A graph from
elsewhere can cause both. This module does not import torch, so that a child starts quickly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy


class TosaArray(msgspec.Struct, array_like=True):
    """An array: NumPy's code of its type, such as ``<f4``, its shape, its elements in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview

    @classmethod
    def of(cls, array: numpy.ndarray[Any, Any]) -> TosaArray:
        """Make the message for an array."""
        return cls(array.dtype.str, array.shape, memoryview(array.tobytes()))

    def array(self) -> numpy.ndarray[Any, Any]:
        """Return the array; it is read-only.

        Raises:
            ValueError: the data does not fill the shape.
        """
        return numpy.frombuffer(self.data, numpy.dtype(self.dtype)).reshape(self.shape)


class TosaRequest(msgspec.Struct, array_like=True):
    """A request to run a graph.

    Attributes:
        graph: a unique name of the graph.
        inputs: the inputs in the graph's order.
        file: path of the flatbuffer, which may be as large as the weights of a model; empty when
            the child already has the graph of this name.
    """

    graph: str
    inputs: list[TosaArray]
    file: str = ""


class TosaResult(msgspec.Struct, array_like=True):
    """The result of a request.

    Attributes:
        status: the model's status, such as ``GraphStatus.TOSA_VALID``; empty when the child does
            not have the graph.
        outputs: the outputs in the graph's order.
    """

    status: str = ""
    outputs: list[TosaArray] = []


# Graphs that the child has, oldest first; it drops the oldest.
_GRAPHS: dict[str, bytes] = {}
_MAX_GRAPHS = 32


def answer(request: bytes) -> bytes:
    """Run the graph of an encoded :class:`TosaRequest`; return an encoded :class:`TosaResult`."""
    decoded = msgspec.msgpack.decode(request, type=TosaRequest)
    if decoded.file:
        if len(_GRAPHS) >= _MAX_GRAPHS:
            del _GRAPHS[next(iter(_GRAPHS))]
        _GRAPHS[decoded.graph] = Path(decoded.file).read_bytes()
    if decoded.graph not in _GRAPHS:
        return msgspec.msgpack.encode(TosaResult())
    outputs, status = import_model()(
        _GRAPHS[decoded.graph],
        [array.array() for array in decoded.inputs],
        verbosity="NONE",
        initialize_variable_tensor_from_numpy=1,
    )
    arrays = [TosaArray.of(array) for array in outputs]
    return msgspec.msgpack.encode(TosaResult(str(status), arrays))


def import_model() -> Any:
    """Import the reference model in the process that runs it."""
    import tosa_reference_model

    return tosa_reference_model.run
