"""MLX: lowered on any host, the delegate's own payload executed with ``mlx.core``.

In the order the data flows: :mod:`~backends.mlx.generated` completes executorch's Python package
where its wheel ships it incomplete, so that programs can be lowered; :mod:`~backends.mlx.schema`,
:mod:`~backends.mlx.flatbuffer`, :mod:`~backends.mlx.payload` and :mod:`~backends.mlx.checks` read
and verify the payload; :mod:`~backends.mlx.kernels` turns each instruction into a step;
:mod:`~backends.mlx.executor` runs the steps; :mod:`~backends.mlx.delegate` hands tensors in and
out as the runtime does.
"""

from backends.mlx.backend import BACKEND

__all__ = ["BACKEND"]
