"""MLX returns rows where the program says channels-last.

MLX's runtime copies the bytes of a result in row-major order (write_output of
backends/mlx/runtime/MLXBackend.cpp). The lowered program must therefore plan its outputs so.
"""

import torch
from common import Observation, main
from mlx_package import lowered

X = torch.randn(1, 3, 6, 7)


def observe() -> Observation:
    layer = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    program = lowered(layer, (X,)).to_executorch().executorch_program
    plan = program.execution_plan[0]
    observed = list(plan.values[plan.outputs[0]].val.dim_order)
    return Observation(
        "a result in the order of dimensions [0, 1, 2, 3]",
        f"in the order {observed}",
        wrong=observed != [0, 1, 2, 3],
    )


if __name__ == "__main__":
    main(observe)
