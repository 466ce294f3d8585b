"""Execute a decoded MLX program with ``mlx.core``, as the delegate's ``Interpreter`` does.

Loading compiles every instruction to a step once; a call runs the steps on a list of tensor slots.
MLX arrays are immutable, so writing in place means assigning a slot: an instruction that reads an
overwritten slot sees the new value, as on the device. MLX computes lazily; results and persistent
buffers are evaluated at the end of a call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import mlx.core as mx

from backends.mlx.execution.cache import SequenceCache, attend
from backends.mlx.execution.kernels import BUILDERS, Builder, Step
from backends.mlx.execution.kernels.base import (
    INT32_MAX,
    INT32_MIN,
    check_memory,
    make_int_reader,
    normalize_axis,
    to_mlx_dtype,
)
from backends.mlx.payload.checks import MAX_ALLOCATION_BYTES
from backends.mlx.payload.graph import MlxGraph, Node, SlotKind
from harness import ProgramError, UnsupportedProgram

Observer = Callable[[int, int, Node, list[Any], list[Any]], None]
"""Called after each instruction with chain, position, node, tensor slots and value slots."""

# MLX builds and evaluates graphs with process-wide state. The delegate also has one lock for all
# programs (mlx_global_mutex in MLXBackend.cpp).
_LOCK = threading.Lock()

# Far more than a real program runs; nested scans of a hostile one can exceed it.
_MAX_STEPS = 1_000_000

# An unevaluated instruction takes about 2 KB of memory.
_STEPS_UNEVALUATED = 20_000


class InstructionError(ProgramError):
    """An instruction failed; the message names the instruction and the reason."""


class MlxExecutor:
    """A loaded program. Its buffers, and its cache if it has one, persist between calls."""

    def __init__(
        self,
        graph: MlxGraph,
        constants: Sequence[mx.array],
        *,
        cache: SequenceCache | None = None,
        memory_limit: int = MAX_ALLOCATION_BYTES,
        wrap: Mapping[str, Callable[[Builder], Builder]] | None = None,
    ) -> None:
        """Compile the instructions, zero the buffers and run the init chain.

        Args:
            graph: a validated program.
            constants: the constant slots in order.
            cache: the off-graph key-value cache that the program's runner installs, if any.
            memory_limit: largest total size in bytes of live results.
            wrap: by node type, a function that replaces its builder; for injecting faults.

        Raises:
            UnsupportedProgram: the program has a node that cannot be executed here.
            ProgramError: the init chain fails.
        """
        self.graph = graph
        self.cache = cache
        self._memory_limit = memory_limit
        self._own: dict[str, Builder] = {
            **BUILDERS,
            "IfNode": self._build_if,
            "ScanNode": self._build_scan,
            "UpdateAndAttendNode": self._build_attend,
        }
        for kind, replace in (wrap or {}).items():
            self._own[kind] = replace(self._own[kind])
        self._chains = [
            [(self._compile(node), node.writes) for node in chain] for chain in graph.chains
        ]
        self._steps = self._live = self._evaluated = 0
        self._observer: Observer | None = None
        self._slots: list[Any] = [None] * graph.tensors
        self._slots[: graph.constants] = constants
        self._buffers = [slot.index for slot in graph.buffer_map]
        with _LOCK:
            check_memory("the buffers", sum(map(self._buffer_bytes, self._buffers)))
            for slot in self._buffers:
                # Zeros, not the values of the module's buffer (load_mutable_buffers).
                meta = graph.meta[slot]
                assert meta is not None, "checked when the payload was read"
                shape = [dim.low for dim in meta.shape]
                self._slots[slot] = mx.zeros(shape, to_mlx_dtype(meta.scalar_type))
            if graph.init is not None:
                self._start()
                tensors = list(self._slots)
                self._run(graph.init, tensors, [None] * graph.values)
                for slot in (*range(graph.constants), *self._buffers):
                    self._slots[slot] = tensors[slot]
            self._evaluate(self._slots)

    def __call__(
        self,
        arguments: Sequence[mx.array | int],
        *,
        dtypes: Sequence[mx.Dtype | None] = (),
        observer: Observer | None = None,
    ) -> list[mx.array | int]:
        """Run the main chain. Several threads may call; their calls run one after the other.

        Args:
            arguments: arrays and integers in the order of the input map.
            dtypes: dtypes to cast the outputs to; None, or no entry, for no cast.
            observer: called with every instruction's result; slower.

        Returns:
            Evaluated arrays, row-major in memory, and integers in the order of the output map.

        Raises:
            ProgramError: an instruction failed, or an argument does not fit; the message names it.
        """
        with _LOCK:
            tensors = list(self._slots)
            values: list[Any] = [None] * self.graph.values
            self._bind(arguments, tensors, values)
            self._start()
            self._observer = observer
            try:
                self._run(self.graph.main, tensors, values)
                results = [
                    self._result(place, tensors, values, dtypes)
                    for place in range(len(self.graph.output_map))
                ]
                self._evaluate([*results, *(tensors[slot] for slot in self._buffers)])
            finally:
                for slot in self._buffers:
                    self._slots[slot] = tensors[slot]
            return results

    def _buffer_bytes(self, slot: int) -> int:
        meta = self.graph.meta[slot]
        assert meta is not None, "checked when the payload was read"
        return prod(dim.low for dim in meta.shape) * to_mlx_dtype(meta.scalar_type).size

    def _bind(self, arguments: Sequence[Any], tensors: list[Any], values: list[Any]) -> None:
        if len(arguments) != len(self.graph.input_map):
            raise ProgramError(
                f"MLX program takes {len(self.graph.input_map)} inputs, got {len(arguments)}"
            )
        for place, (slot, given) in enumerate(zip(self.graph.input_map, arguments, strict=True)):
            if slot.kind is SlotKind.TENSOR:
                tensors[slot.index] = given
            elif slot.kind is SlotKind.INT and INT32_MIN <= given <= INT32_MAX:
                values[slot.index] = int(given)
            else:
                raise ProgramError(f"MLX input {place}: {given} is not an int32")

    def _result(
        self,
        place: int,
        tensors: list[Any],
        values: list[Any],
        dtypes: Sequence[mx.Dtype | None],
    ) -> Any:
        slot = self.graph.output_map[place]
        result = (tensors if slot.kind is SlotKind.TENSOR else values)[slot.index]
        if result is None:
            raise ProgramError(f"MLX program never writes its output {place}")
        if slot.kind is SlotKind.TENSOR:  # prepare_output in MLXBackend.cpp
            result = mx.contiguous(result)
            dtype = dtypes[place] if place < len(dtypes) else None
            if dtype is not None and result.dtype != dtype:
                result = result.astype(dtype)
        return result

    def _start(self) -> None:
        self._steps = self._live = self._evaluated = 0
        self._observer = None

    @staticmethod
    def _evaluate(results: Sequence[Any]) -> None:
        try:
            mx.eval([item for item in results if isinstance(item, mx.array)])
        except (RuntimeError, ValueError, MemoryError) as error:
            raise ProgramError(f"MLX cannot evaluate the results: {error}") from error

    def _compile(self, node: Node) -> Step:
        builder = self._own.get(node.kind)
        if builder is None:
            raise UnsupportedProgram(f"{node.kind} cannot be executed on this host")
        return builder(node)

    def _run(self, chain: int, tensors: list[Any], values: list[Any]) -> None:
        steps = self._chains[chain]
        observer = self._observer
        live = 0
        at = 0
        try:
            for at, (step, writes) in enumerate(steps):
                for slot in writes:
                    if (old := tensors[slot]) is not None:
                        live -= old.nbytes
                step(tensors, values)
                for slot in writes:
                    new = tensors[slot]
                    live += new.nbytes
                    # MLX counts modulo 2**64.
                    if new.nbytes != prod(new.shape) * new.itemsize:
                        raise ProgramError(f"a result has shape {new.shape}")
                if self._live + live > self._memory_limit:
                    raise ProgramError(
                        f"live results take {self._live + live} bytes, more than the limit of "
                        f"{self._memory_limit}"
                    )
                if observer is not None:
                    observer(chain, at, self.graph.chains[chain][at], tensors, values)
        except (InstructionError, UnsupportedProgram):
            raise
        except Exception as error:
            raise InstructionError(self._describe_failure(chain, at, tensors, error)) from error
        self._live += live
        self._steps += len(steps)
        if self._steps > _MAX_STEPS:
            raise ProgramError(f"MLX program runs more than {_MAX_STEPS} instructions")
        if self._steps > self._evaluated + _STEPS_UNEVALUATED:
            self._evaluated = self._steps
            self._evaluate(tensors)

    def _describe_failure(self, chain: int, at: int, tensors: list[Any], error: Exception) -> str:
        node = self.graph.chains[chain][at]
        unwritten = [slot for slot in node.reads if tensors[slot] is None]
        if unwritten:
            reason = f"reads {unwritten[0]!r} before anything writes it"
        else:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
        return f"MLX chain {chain}, instruction {at} ({node.kind}): {reason}"

    def _build_if(self, node: Node) -> Step:
        condition = make_int_reader(node.cond)
        then, otherwise = node.then_chain_idx, node.else_chain_idx

        def step(t: list[Any], v: list[Any]) -> None:
            self._run(then if condition(v) else otherwise, t, v)

        return step

    def _build_scan(self, node: Node) -> Step:
        """Build a scan: the body runs on slices along an axis, and its results are stacked."""
        axis, body = node.scan_axis, node.body_chain_idx

        def step(t: list[Any], v: list[Any]) -> None:
            # exec_scan runs for the length of the first; MLX has no slice beyond another's end.
            lengths = [t[slot].shape[normalize_axis(axis, t[slot].ndim)] for slot in node.originals]
            length = lengths[0]
            if min(lengths) < length:
                raise ProgramError(f"scans {length} slices of tensors that have {lengths} slices")
            collected: list[list[mx.array]] = [[] for _ in node.outputs]
            for index in range(length):
                for source, slot in zip(node.originals, node.sliced, strict=True):
                    t[slot] = mx.take(t[source], index, axis)
                self._run(body, t, v)
                for slot, parts in zip(node.outputs, collected, strict=True):
                    parts.append(t[slot])
            for slot, parts in zip(node.outputs, collected, strict=True):
                t[slot] = mx.stack(parts, axis)

        return step

    def _build_attend(self, node: Node) -> Step:
        out_dtype = None if node.out_dtype is None else to_mlx_dtype(node.out_dtype)
        if node.layer_id is None or node.scale is None:
            raise ProgramError("update_and_attend needs a layer_id and a scale")

        def step(t: list[Any], v: list[Any]) -> None:
            if self.cache is None:
                raise ProgramError("update_and_attend: no cache is installed")
            t[node.out] = attend(
                t[node.q],
                t[node.k],
                t[node.v],
                t[node.position],
                layer_id=node.layer_id,
                scale=node.scale,
                out_dtype=out_dtype,
                cache=self.cache,
            )

        return step
