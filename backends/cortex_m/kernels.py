"""The kernels of ``cortex_m`` operators: Arm's references, with exact convolutions of integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from harness.backend_api import ReferenceKernels
from harness.vendors.torch import TorchDispatchMode

if TYPE_CHECKING:
    from executorch.exir import schema

    from harness.backend_api import Program
    from harness.execution.kernels import KernelHandle


class CortexMKernels:
    """Arm's references in Python, which call torch with int32 tensors."""

    def __init__(self) -> None:
        self._references = ReferenceKernels()

    def load(self, program: Program, call: schema.KernelCall) -> KernelHandle:
        """See :class:`~harness.backend_api.Kernels`."""
        reference = self._references.load(program, call)

        def execute(arguments: list[Any]) -> None:
            with ExactConvolutions():
                reference(arguments)

        return execute


class ExactConvolutions(TorchDispatchMode):
    """Compute convolutions of int32 tensors in float64.

    torch has no dilated convolution of integers. A sum of products of 9 and 8 bits is exact in
    float64 up to 2^36 terms; it wraps to 32 bits as the accumulator of a kernel does.
    """

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        is_integer = func is torch.ops.aten.convolution.default and args[0].dtype == torch.int32
        if not is_integer:
            return func(*args, **(kwargs or {}))
        wide = [
            each.double() if isinstance(each, torch.Tensor) and each.dtype == torch.int32 else each
            for each in args
        ]
        return func(*wide, **(kwargs or {})).to(torch.int64).to(torch.int32)
