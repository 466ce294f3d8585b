"""Arm's backend writes a CAST from float32 to bool into a graph of TOSA 1.0, which has none."""

from typing import Any

import torch
from common import Observation, lower, main

X = torch.tensor([[0.0, -0.0, 1e-30, -2.5]])


class ToBool(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bool)


def observe() -> Observation:
    from executorch.backends.arm.operators import op_to_dim_order_copy as operators
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

    types = operators.ts.DType
    casts = []
    visitor = operators.ToDimOrderCopyVisitor
    define_node = visitor.define_node

    def record(self: Any, node: Any, graph: Any, inputs: list[Any], output: Any) -> None:
        casts.append((str(self.tosa_spec.version), inputs[0].dtype, output.dtype))
        define_node(self, node, graph, inputs, output)

    visitor.define_node = record
    lower(ToBool(), (X,), TOSAPartitioner(TosaCompileSpec("TOSA-1.0+FP")))
    return Observation(
        "no CAST from FP32 to BOOL in a graph of TOSA 1.0",
        [f"TOSA {version}: CAST from {source} to {to}" for version, source, to in casts],
        wrong=("1.0", types.FP32, types.BOOL) in casts,
    )


if __name__ == "__main__":
    main(observe)
