"""A plan of our own making, loaded in the ExecuTorch runtime and executed in our memory."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import torch
from executorch.exir import schema

from harness.errors import ProgramError
from harness.execution.program import DelegatePayload
from harness.vendors.executorch import (
    DataEntry,
    NamedDataStoreOutput,
    PTEFile,
    serialize_pte_binary,
)

# What the runtime aligns constants of named data to where it writes a program itself.
_ALIGNMENT = 128


class LoadedPlan:
    """A plan without constants, loaded in the runtime; it keeps no state between calls, unless
    its delegate does."""

    def __init__(
        self, plan: schema.ExecutionPlan, what: str, payload: DelegatePayload | None = None
    ) -> None:
        """Serialize and load.

        Args:
            plan: one method.
            what: what it executes, for messages.
            payload: of its delegate, if it has one.

        Raises:
            ProgramError: the runtime refuses it.
        """
        from executorch.runtime import Runtime

        data = _program(plan, payload)
        try:
            # Kept, because a method reads the bytes of its program and does not hold them.
            self._program = Runtime.get().load_program(data)
            method = self._program.load_method(plan.name)
        except RuntimeError as error:
            raise ProgramError(f"the runtime does not load {what}: {error}") from error
        if method is None:
            raise ProgramError("the runtime lost a method that it was given")
        self._method = method
        self._turn = threading.Lock()

    def __call__(self, inputs: list[torch.Tensor]) -> list[Any]:
        """Execute; inputs that :func:`clear_allocation` declares are the memory it runs in."""
        with self._turn:
            return list(self._method.execute(inputs))


def _program(plan: schema.ExecutionPlan, payload: DelegatePayload | None) -> bytes:
    program = schema.Program(
        version=0,
        execution_plan=[plan],
        constant_buffer=[schema.Buffer(b"")],
        backend_delegate_data=[],
        segments=[],
        constant_segment=schema.SubsegmentOffsets(0, []),
        mutable_data_segments=[],
    )
    if payload is None:
        return bytes(serialize_pte_binary(PTEFile(program=program)))
    program.backend_delegate_data = [schema.BackendDelegateInlineData(payload.data)]
    buffers = [bytes(data) for data in payload.named_data.values()]
    places = {key: DataEntry(at, _ALIGNMENT, None) for at, key in enumerate(payload.named_data)}
    file = PTEFile(program=program, named_data=NamedDataStoreOutput(buffers, places, {}))
    return bytes(serialize_pte_binary(file, extract_delegate_segments=True))


def clear_allocation(value: Any) -> Any:
    """The declaration of a tensor whose memory the caller brings; others as they are."""
    if not isinstance(value, schema.Tensor):
        return value
    return replace(value, data_buffer_idx=0, allocation_info=None, extra_tensor_info=None)


def to_shareable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's memory in an order that the Python bindings take; the runtime goes by the
    declared dim order, whichever they are given."""
    if tensor.is_contiguous() or not tensor.dim():
        return tensor
    return tensor.permute(tensor.dim_order()).view(tensor.shape)
