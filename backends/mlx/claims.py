"""The operators that MLX's program builder takes, from its registry of handlers.

Patterns of several operators are not in it: they lower calls that have handlers too, or operators
that only quantized models have.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from harness.backend_api import OperatorClaim, op_name


def list_claims() -> dict[str, OperatorClaim]:
    """List the operators that have a handler, with the dtypes that the delegate's format has."""
    # Off a Mac the package lacks files until ``backends.mlx`` has completed it.
    from executorch.backends.mlx.builder.op_registry import REGISTRY

    dtypes = tuple(_list_dtypes())
    return {
        op_name(target): OperatorClaim(
            dtypes=dtypes, source=getattr(REGISTRY.get_handler(_Call(target)), "__name__", "")
        )
        for target in REGISTRY.registered_ops()
        if hasattr(target, "_schema")  # others compute sizes or read tuples
    }


class _Call:
    """What the registry reads of a node."""

    def __init__(self, target: object) -> None:
        self.target = target


def _list_dtypes() -> Iterator[str]:
    from executorch.backends.mlx.builder.op_helpers import torch_dtype_to_scalar_type

    for dtype in sorted({each for each in vars(torch).values() if isinstance(each, torch.dtype)},
                        key=str):  # fmt: skip
        try:
            torch_dtype_to_scalar_type(dtype)
        except ValueError:
            continue
        yield str(dtype).removeprefix("torch.")
