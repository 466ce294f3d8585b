"""Execute payloads in a separate process, where a crash, a hang or a flood of output is a result.

The parent talks to a server, which forks a child that executes; a child that dies is reported
and replaced. The child has a limit of address space, and an alarm that kills it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import io
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from typing import IO, Any, NamedTuple

import mlx.core as mx
import numpy

from backends.mlx.execution import executor
from backends.mlx.execution.cache import CacheConfig, SequenceCache
from backends.mlx.execution.kernels import Builder
from backends.mlx.execution.kernels.base import to_mlx_dtype
from backends.mlx.payload import reader
from backends.mlx.payload.checks import ITEM_SIZES
from backends.mlx.payload.graph import MlxGraph, MlxSlot, SlotKind
from harness import ProgramError

# For a payload with small tensors: using more than this is a defect.
SECONDS = 10.0
ADDRESS_SPACE = 4 * 2**30
RESULTS_BYTES = 2**26
STEPS = 50_000
ELEMENTS = 2**16

_LENGTH = struct.Struct("<Q")

# The child has finished. Exit without cleanup: BLAS may end a process with 0.
_DONE = 73

_Stream = IO[bytes] | io.FileIO


class Outcome(NamedTuple):
    """What came of a payload.

    Attributes:
        kind: "results", "refused" by a ProgramError, "skipped" because its constants or inputs
            would be large; or a defect: "raised" another exception, "died", or "printed", as
            BLAS does when it is called with sizes that contradict each other.
        detail: the message, or how the process ended.
    """

    kind: str
    detail: str

    @property
    def is_defect(self) -> bool:
        return self.kind in ("raised", "died", "printed")


class Worker:
    """The parent's end."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __call__(
        self,
        data: bytes,
        named: Mapping[str, bytes],
        seed: int,
        *,
        fault: str = "",
        seconds: float = SECONDS,
    ) -> Outcome:
        """Execute a payload; missing constants, and the inputs, are random.

        Args:
            data: the payload.
            named: its named data.
            seed: of what is random.
            fault: what NegNode does instead, by its name in FAULTS.
            seconds: how long it may take.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        _send(
            self._server.stdin,
            (data, {key: bytes(value) for key, value in named.items()}, seed, fault, seconds),
        )
        return Outcome(*_receive(self._server.stdout))

    def close(self) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(60)
        self._server.stdout.close()


def _send(stream: _Stream, message: Any) -> None:
    data = pickle.dumps(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: _Stream) -> Any:
    return pickle.loads(_exactly(stream, *_LENGTH.unpack(_exactly(stream, _LENGTH.size))))


def _exactly(stream: _Stream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = stream.read(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


# --- the server: it executes nothing, so that MLX has no threads yet when it forks


def _serve() -> None:
    reader._reader()
    # Unbuffered, so that a child takes one message and leaves the next to its successor.
    requests, replies = io.FileIO(0), io.FileIO(os.dup(1), "w")
    with tempfile.TemporaryFile() as notes:
        while True:
            child = os.fork()
            if not child:
                os.dup2(notes.fileno(), 1)
                os.dup2(notes.fileno(), 2)
                _work(requests, replies, notes)
                os._exit(_DONE)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status == _DONE:
                return
            said = _said(notes)
            how = signal.Signals(-status).name if status < 0 else f"exit {status}"
            how = "took too long" if status == -signal.SIGALRM else how
            _send(replies, ("died", f"{how}\n{said[:3000]}"))


def _said(notes: IO[bytes]) -> str:
    """Text printed since the last call."""
    notes.seek(0)
    said = notes.read().decode(errors="replace").strip()
    notes.seek(0)
    notes.truncate(0)
    return said


def _work(requests: _Stream, replies: _Stream, notes: IO[bytes]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    executor._MAX_STEPS = STEPS
    while True:
        try:
            *message, fault, seconds = _receive(requests)
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, seconds)
        outcome = _outcome(*message, {"NegNode": FAULTS[fault]} if fault else {})
        signal.setitimer(signal.ITIMER_REAL, 0)
        ctypes.CDLL(None).fflush(None)
        if said := _said(notes):
            outcome = Outcome("printed", said[:3000])
        _send(replies, tuple(outcome))


def _outcome(data: bytes, named: dict[str, bytes], seed: int, wrap: Any) -> Outcome:
    try:
        return Outcome(*_execute(data, named, numpy.random.default_rng(seed), wrap))
    except ProgramError as error:
        if "\n" in str(error):
            return Outcome("raised", f"more than a line: {error}")
        return Outcome("refused", str(error))
    except Exception:
        return Outcome("raised", traceback.format_exc())


def _fault(act: Callable[[], Any]) -> Callable[[Builder], Builder]:
    def step(t: list[Any], v: list[Any]) -> None:
        act()

    return lambda build: lambda node: step


def _hang() -> None:
    while True:
        time.sleep(1)


def _fail(build: Builder) -> Builder:
    raise KeyError("planted")


# Faults by their effect on NegNode, to check that each is noticed.
FAULTS: Mapping[str, Callable[[Builder], Builder]] = {
    "crash": _fault(lambda: ctypes.string_at(0)),
    "hang": _fault(_hang),
    "memory": _fault(lambda: mx.eval(mx.ones([ADDRESS_SPACE // 4 + 1]))),
    "error": _fail,
}


class _Large(Exception):
    """More elements than a case of the fuzz may have."""


def _execute(data: bytes, named: dict[str, bytes], rng: Any, wrap: Any) -> tuple[str, str]:
    graph = reader.load(data)
    try:
        constants = [_constant(graph, slot, named, rng) for slot in range(graph.constants)]
        buffers = [graph.get_meta(slot.index) for slot in graph.buffer_map]
        for meta in buffers:
            assert meta is not None
            _check_size([dim.low for dim in meta.shape])
        calls = [[_argument(graph, slot, rng) for slot in graph.input_map] for _ in range(2)]
    except _Large as error:
        return "skipped", str(error)
    layers = [
        node.layer_id
        for chain in graph.chains
        for node in chain
        if node.kind == "UpdateAndAttendNode"
    ]
    cache = SequenceCache(CacheConfig.from_layer_ids(layers)) if layers else None
    program = executor.MlxExecutor(
        graph, constants, cache=cache, memory_limit=RESULTS_BYTES, wrap=wrap
    )
    results: list[Any] = []
    for arguments in calls:
        results = program(arguments)
    # MLX computes lazily: an unread value must be requested.
    program(calls[0], observer=_look)
    return "results", ", ".join(str(getattr(item, "shape", item)) for item in results)


def _look(chain: int, at: int, node: Any, tensors: list[Any], values: list[Any]) -> None:
    mx.eval([tensors[slot] for slot in node.writes])


def _check_size(shape: Any) -> None:
    count = 1
    for size in shape:
        count *= max(size, 1)
    if count > ELEMENTS:
        raise _Large(f"shape {shape}")


def _constant(graph: MlxGraph, slot: int, named: dict[str, bytes], rng: Any) -> mx.array:
    meta = graph.meta[slot]
    assert meta is not None
    shape = [dim.low for dim in meta.shape]
    _check_size(shape)
    size = int(numpy.prod(shape)) * ITEM_SIZES[meta.scalar_type]
    data = named.get(graph.names[slot], b"")[:size]
    if len(data) < size:
        return _tensor(shape, to_mlx_dtype(meta.scalar_type), rng)
    return _from_bytes(data, shape, to_mlx_dtype(meta.scalar_type))


def _argument(graph: MlxGraph, slot: MlxSlot, rng: Any) -> Any:
    if slot.kind is not SlotKind.TENSOR:
        return int(rng.choice([*range(-2, 6), 2**31 - 1, -(2**31)]))
    meta = graph.get_meta(slot.index)
    if meta is None:
        return _tensor(rng.integers(0, 5, rng.integers(0, 4)).tolist(), mx.float32, rng)
    dtype = to_mlx_dtype(meta.scalar_type)
    _check_size([dim.low for dim in meta.shape])
    shape = []
    for dim in meta.shape:
        high = dim.low + 4 if dim.high is None else min(dim.high, dim.low + 4)
        shape.append(int(rng.integers(dim.low, high + 1)))
    _check_size(shape)
    return _tensor(shape, dtype, rng)


def _tensor(shape: list[int], dtype: mx.Dtype, rng: Any) -> mx.array:
    """Small numbers, most of them valid indices; or any bits, including infinities."""
    count = int(numpy.prod(shape))
    kind = rng.integers(0, 16)
    if kind == 0:
        return _from_bytes(rng.bytes(count * dtype.size), shape, dtype)
    if kind == 1 and mx.issubdtype(dtype, mx.signedinteger):
        lowest = -(2 ** (8 * dtype.size - 1))
        return mx.array(rng.choice([lowest, -1, 0, 1], shape).astype(numpy.int64)).astype(dtype)
    values = rng.integers(-1, 4, count) if kind < 4 else rng.integers(0, 2, count)
    if mx.issubdtype(dtype, mx.floating):
        values = values + rng.random(count)
    return mx.array(values.astype(numpy.float32).reshape(shape)).astype(dtype)


def _from_bytes(data: bytes, shape: list[int], dtype: mx.Dtype) -> mx.array:
    flat = numpy.frombuffer(data, numpy.uint8)
    if dtype == mx.bool_:  # what is neither 0 nor 1 is no bool
        flat = flat & 1
    if not flat.size:
        return mx.zeros(shape, dtype)
    return mx.reshape(mx.view(mx.array(flat), dtype), shape)


if __name__ == "__main__":
    _serve()
