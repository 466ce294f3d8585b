"""Builders, one for each node type: a builder compiles an instruction to a function on the slots.

Node types that run other chains (``IfNode``, ``ScanNode``) or use the cache are in
:mod:`backends.mlx.execution.executor`, since they need the executor.
"""

from __future__ import annotations

from backends.mlx.execution.kernels import (
    create,
    elementwise,
    index,
    linear,
    metal,
    quantized,
    reduce,
    shape,
    symbolic,
)
from backends.mlx.execution.kernels.base import Builder, Step

__all__ = ["BUILDERS", "Builder", "Step"]

BUILDERS: dict[str, Builder] = {
    "NoopNode": lambda node: lambda t, v: None,
    **elementwise.BUILDERS,
    **shape.BUILDERS,
    **reduce.BUILDERS,
    **linear.BUILDERS,
    **quantized.BUILDERS,
    **index.BUILDERS,
    **create.BUILDERS,
    **symbolic.BUILDERS,
    **metal.BUILDERS,
}
