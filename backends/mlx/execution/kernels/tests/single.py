"""Programs of single nodes, for operands that executorch seldom emits.

The tests name the C++ source of each expectation. ``Interpreter`` stands for
``backends/mlx/runtime/MLXInterpreter.h`` of executorch (commit cff6f4dd), ``MlxExecutor`` for
``MLXExecutor.h`` beside it, ``ops`` and ``fast`` for ``mlx/ops.cpp`` and ``mlx/fast.cpp`` of the
MLX that this executorch builds (commit 7a1d4f5c).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from backends.mlx.execution.executor import MlxExecutor
from backends.mlx.payload import reader
from backends.mlx.payload.tests.payloads import encode, graph, mlx, slot

T = mlx.Tid
OUT = T(60)


def run(nodes: Sequence[Any], *inputs: mx.array, out: Any = OUT) -> mx.array:
    """Encode, decode and execute nodes that read the inputs from slots 0, 1, 2 and so on.

    Raises:
        ProgramError: the payload or an instruction is refused.
    """
    chains = nodes if isinstance(nodes[0], list) else [list(nodes)]
    count = len(inputs)
    encoded = encode(
        graph(
            *chains,
            num_input_tensors=count,
            input_map=[*map(slot, range(count))],
            output_map=[slot(out.idx)],
        )
    )
    (result,) = MlxExecutor(reader.load(encoded), [])(list(inputs))
    assert isinstance(result, mx.array)
    return result
