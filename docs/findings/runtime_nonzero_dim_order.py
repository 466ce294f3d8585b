"""Native aten::nonzero writes row by row into a result that is declared column-major."""

import torch
from common import Observation, execute, lower, main
from executorch.exir._serialize._program import deserialize_pte_binary


class NonZero(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x)


def observe() -> Observation:
    inputs = (torch.tensor([[1.0, 0.0], [2.0, 3.0]]),)
    program = bytes(lower(NonZero(), inputs).to_executorch().buffer)
    plan = deserialize_pte_binary(program).program.execution_plan[0]
    declared = list(plan.values[plan.outputs[0]].val.dim_order)
    expected, observed = torch.nonzero(*inputs), execute(program, inputs)[0]
    print(f"declared dim order of the result: {declared}, strides {observed.stride()}")
    return Observation(
        expected.tolist(), observed.tolist(), wrong=not torch.equal(observed, expected)
    )


if __name__ == "__main__":
    main(observe)
