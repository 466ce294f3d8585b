"""Execute a single delegate natively, in a program that the runtime cannot execute as a whole.

The delegate's call becomes a separate program with its payload and the declarations of its
arguments. The runtime loads it once and executes it in the interpreter's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from executorch.exir import schema
from executorch.exir.tensor import stride_from_dim_order

from harness.errors import ProgramError
from harness.execution.execute import DelegateHandle, DelegateLoader
from harness.execution.native.loaded_plan import LoadedPlan, clear_allocation, to_shareable
from harness.execution.operators import is_dynamic
from harness.execution.program import DelegatePayload, Program


def create_loader(program: Program) -> DelegateLoader:
    """Return a loader that executes delegates of one program natively."""

    def load(payload: DelegatePayload) -> DelegateHandle:
        number = next(at for at, one in enumerate(program.delegates) if one is payload)
        call, written = _find_first_call(program.plan, number)
        declared = [program.plan.values[index].val for index in call]
        if not all(isinstance(value, schema.Tensor) for value in declared):
            raise ProgramError(f"{payload.id} gets an argument that is no tensor; not run natively")
        return _NativeDelegate(payload, declared, [index not in written for index in call])

    return load


def _find_first_call(plan: schema.ExecutionPlan, delegate: int) -> tuple[list[int], set[int]]:
    """Return the arguments of a delegate's first call, and the values written before it.

    Raises:
        ProgramError: the program never calls the delegate.
    """
    held = set(plan.inputs)
    held |= {
        index
        for index, value in enumerate(plan.values)
        if isinstance(value.val, schema.Tensor)
        and (value.val.data_buffer_idx or value.val.extra_tensor_info is not None)
    }
    for instruction in plan.chains[0].instructions:
        match instruction.instr_args:
            case schema.DelegateCall(delegate_index=index, args=args) if index == delegate:
                return args, held
            case schema.KernelCall(args=args) | schema.DelegateCall(args=args):
                held.update(args)
            case schema.MoveCall(move_to=to):
                held.add(to)
    raise ProgramError(f"delegate {delegate} is never called")


class _NativeDelegate:
    """Executes one delegate.

    An argument that was not written before is an output. Outputs of dynamic shape are copied from
    the runtime; it writes the others in place.
    """

    def __init__(
        self, payload: DelegatePayload, declared: Sequence[schema.Tensor], outputs: Sequence[bool]
    ) -> None:
        self._declared = declared
        count = len(declared)
        self._resized = [at for at in range(count) if outputs[at] and is_dynamic(declared[at])]
        self._shared = [at for at in range(count) if at not in self._resized]
        place = schema.BackendDelegateDataReference(schema.DataLocation.INLINE, 0)
        specs = [schema.CompileSpec(key, value) for key, value in payload.compile_specs.items()]
        arguments = schema.DelegateCall(0, list(range(count)))
        plan = schema.ExecutionPlan(
            name="forward",
            container_meta_type=schema.ContainerMetadata("", ""),
            values=[schema.EValue(clear_allocation(value)) for value in declared],
            inputs=self._shared,
            outputs=self._resized,
            chains=[schema.Chain([], [], [schema.Instruction(arguments)], None)],
            operators=[],
            delegates=[schema.BackendDelegate(payload.id, place, specs)],
            non_const_buffer_sizes=[0],
        )
        self._id = payload.id
        self._execute = LoadedPlan(plan, f"delegate {payload.id}", payload)

    def __call__(self, arguments: list[Any]) -> None:
        if not all(isinstance(value, torch.Tensor) for value in arguments):
            raise ProgramError(f"{self._id} takes and returns tensors only")
        try:
            results = self._execute([to_shareable(arguments[at]) for at in self._shared])
        except RuntimeError as error:
            raise ProgramError(f"delegate {self._id}: {error}") from error
        for at, result in zip(self._resized, results, strict=True):
            strides = stride_from_dim_order(list(result.shape), self._declared[at].dim_order)
            arguments[at].as_strided_(result.shape, strides).copy_(result)
