"""A serialized program (``.pte``) as typed data: plan, tensors and delegates."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir import schema
from executorch.exir.tensor import stride_from_dim_order

from harness.errors import ProgramError
from harness.execution import container
from harness.execution.validation import torch_dtype, validate_plan
from harness.vendors.executorch import PTEFile


@dataclass(frozen=True)
class DelegatePayload:
    """The data that a backend's runtime gets when it loads a delegate.

    Attributes:
        id: registered name of the backend, such as ``TOSABackend``.
        data: payload, the bytes that the backend's ``preprocess`` returned.
        compile_specs: values by key, as the partitioner set them.
        named_data: named data map of the program; the values are views of its bytes.
    """

    id: str
    data: bytes
    compile_specs: dict[str, bytes]
    named_data: Mapping[str, bytes | memoryview]


@dataclass(frozen=True)
class TensorSpec:
    """Dtype, sizes and layout that a program declares for a tensor."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    is_dynamic: bool

    @classmethod
    def from_value(cls, value: schema.Tensor) -> TensorSpec:
        """Read the declaration of a plan's tensor.

        Raises:
            ProgramError: torch has no such dtype.
        """
        return cls(
            torch_dtype(value.scalar_type),
            tuple(value.sizes),
            tuple(value.dim_order),
            value.shape_dynamism != schema.TensorShapeDynamism.STATIC,
        )

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides, in elements, of the declared sizes in the declared dim order."""
        return self.compute_strides(self.sizes)

    def compute_strides(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the strides, in elements, of other sizes in the declared dim order."""
        return tuple(stride_from_dim_order(list(sizes), list(self.dim_order)))

    def arrange(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy a tensor into the layout that the program declares for it."""
        if tensor.dim() != len(self.dim_order):
            return tensor.clone()
        empty = torch.empty_strided(
            tensor.shape, self.compute_strides(tensor.shape), dtype=tensor.dtype
        )
        return empty.copy_(tensor)


class Program:
    """One method of a parsed ``.pte``."""

    def __init__(self, data: bytes | PTEFile, method: str = "forward") -> None:
        """Parse the bytes and validate the method's plan.

        Args:
            data: bytes of the ``.pte``, or the result of :func:`harness.execution.container.read`.
            method: its name.

        Raises:
            ProgramError: the bytes are no program, or the method is missing or invalid.
        """
        self.file = container.read(data) if isinstance(data, bytes) else data
        plans = {plan.name: plan for plan in self.file.program.execution_plan}
        if method not in plans:
            raise ProgramError(f"program has no method {method!r}; it has {sorted(plans)}")
        self.plan: schema.ExecutionPlan = plans[method]
        validate_plan(self.plan)
        self._specs: dict[int, TensorSpec] = {}

    def get_tensor_spec(self, index: int) -> TensorSpec:
        """Return the declaration of a tensor by its index in the plan's values.

        Raises:
            ProgramError: the value is not a tensor.
        """
        if index in self._specs:
            return self._specs[index]
        value = self.plan.values[index].val
        if not isinstance(value, schema.Tensor):
            raise ProgramError(f"value {index} is {type(value).__name__}, expected a tensor")
        self._specs[index] = TensorSpec.from_value(value)
        return self._specs[index]

    @property
    def inputs(self) -> list[TensorSpec | None]:
        """Declarations of the inputs; None for inputs that are not tensors."""
        return [self._maybe_tensor(index) for index in self.plan.inputs]

    @property
    def outputs(self) -> list[TensorSpec | None]:
        """Declarations of the outputs; None for outputs that are not tensors."""
        return [self._maybe_tensor(index) for index in self.plan.outputs]

    def _maybe_tensor(self, index: int) -> TensorSpec | None:
        is_tensor = isinstance(self.plan.values[index].val, schema.Tensor)
        return self.get_tensor_spec(index) if is_tensor else None

    def arrange(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Copy flat inputs into the layouts that the program declares.

        The copies protect the caller's tensors from a runtime that writes to its inputs. Extra
        values stay unchanged; the runtime rejects them.
        """
        specs = [*self.inputs, *[None] * len(values)]
        return tuple(
            spec.arrange(value) if spec is not None and isinstance(value, torch.Tensor) else value
            for value, spec in zip(values, specs, strict=False)
        )

    @functools.cached_property
    def named_data(self) -> dict[str, bytes | memoryview]:
        """The named data map: values are views of the program's bytes."""
        store = self.file.named_data
        if store is None:
            return {}
        return {key: store.buffers[entry.buffer_index] for key, entry in store.pte_data.items()}

    @functools.cached_property
    def delegates(self) -> list[DelegatePayload]:
        """The delegates, in the order of the indices in delegate calls."""
        program, named = self.file.program, self.named_data
        payloads = []
        for delegate in self.plan.delegates:
            where = delegate.processed
            if where.location != schema.DataLocation.INLINE:
                raise ProgramError(f"payload of {delegate.id} was not restored from its segment")
            if not 0 <= where.index < len(program.backend_delegate_data):
                raise ProgramError(f"payload {where.index} of {delegate.id} is not in the program")
            data = program.backend_delegate_data[where.index].data
            specs = {spec.key: spec.value for spec in delegate.compile_specs}
            if data is None or None in specs or None in specs.values():
                raise ProgramError(f"the payload or a compile spec of {delegate.id} is missing")
            specs = {key: bytes(value) for key, value in specs.items()}
            payloads.append(DelegatePayload(delegate.id, bytes(data), specs, named))
        return payloads

    def get_initial_bytes(self, value: schema.Tensor) -> bytes | memoryview | None:
        """Return the bytes of a constant or of a buffer's initial state; None for other tensors."""
        extra = value.extra_tensor_info
        if extra is not None and extra.location == schema.TensorDataLocation.EXTERNAL:
            name = extra.fully_qualified_name
            data = self.named_data.get(name or "")
            if data is None:
                raise ProgramError(
                    f"constant {name!r} is not in the program but in a .ptd file beside it"
                )
            return data
        if value.data_buffer_idx == 0:
            return None
        planned = value.allocation_info is not None
        buffers = self.file.mutable_data if planned else self.file.program.constant_buffer
        if buffers is None or not 0 <= value.data_buffer_idx < len(buffers):
            what = "initial state of a mutable buffer" if planned else "a constant"
            raise ProgramError(f"{what} is missing: buffer {value.data_buffer_idx}")
        storage: bytes | memoryview = buffers[value.data_buffer_idx].storage
        return storage
