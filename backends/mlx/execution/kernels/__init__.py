"""One builder a node type: an instruction becomes a function on the slots.

The node types that run other chains (``IfNode``, ``ScanNode``) and the cache's are in
:mod:`backends.mlx.execution.executor`, which has what they need.
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
