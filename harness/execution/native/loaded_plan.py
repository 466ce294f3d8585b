"""A generated plan that the ExecuTorch runtime executes in the caller's memory."""

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

# Alignment of named data in programs that executorch writes.
_ALIGNMENT = 128


class LoadedPlan:
    """A plan without constants, loaded in the runtime.

    It has no state between calls, except that of its delegate.
    """

    def __init__(
        self, plan: schema.ExecutionPlan, what: str, payload: DelegatePayload | None = None
    ) -> None:
        """Serialize and load a plan.

        Args:
            plan: one method.
            what: description of the plan for error messages.
            payload: payload of its delegate, if it has one.

        Raises:
            ProgramError: the runtime does not load it.
        """
        from executorch.runtime import Runtime

        data = _serialize(plan, payload)
        try:
            # The attribute keeps the bytes alive: a method reads them without a reference.
            self._program = Runtime.get().load_program(data)
            method = self._program.load_method(plan.name)
        except RuntimeError as error:
            raise ProgramError(f"the runtime does not load {what}: {error}") from error
        if method is None:
            raise ProgramError("the runtime lost a method that it was given")
        self._method = method
        self._lock = threading.Lock()

    def __call__(self, inputs: list[torch.Tensor]) -> list[Any]:
        """Execute the plan in the memory of inputs that :func:`clear_allocation` declared."""
        with self._lock:
            return list(self._method.execute(inputs))


def _serialize(plan: schema.ExecutionPlan, payload: DelegatePayload | None) -> bytes:
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
    """Declare that the caller provides a tensor's memory; other values stay unchanged."""
    if not isinstance(value, schema.Tensor):
        return value
    return replace(value, data_buffer_idx=0, allocation_info=None, extra_tensor_info=None)


def to_shareable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous view of a tensor's memory, which the Python bindings require.

    The runtime reads it in the declared dim order.
    """
    if tensor.is_contiguous() or not tensor.dim():
        return tensor
    return tensor.permute(tensor.dim_order()).view(tensor.shape)
