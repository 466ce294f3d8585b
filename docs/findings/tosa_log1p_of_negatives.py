"""Arm's log1p in floating point uses a Taylor series for every negative argument."""

import torch
from common import Observation, lower, main


class Log1p(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log1p(x)


def observe() -> Observation:
    from executorch.backends.arm.test.runner_utils import TosaReferenceModelDispatch
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

    inputs = (torch.tensor([-0.99, -0.9, -0.5, 0.5]),)
    edge = lower(Log1p(), inputs, TOSAPartitioner(TosaCompileSpec("TOSA-1.0+FP")))
    with TosaReferenceModelDispatch():
        observed = edge.exported_program().module()(*inputs)
    x, expected = inputs[0].double(), torch.log1p(*inputs)
    series = sum(-((-x) ** power) / power for power in range(1, 7))
    print(f"six terms of the series: {series.tolist()}")
    follows = (observed - series).abs() < (observed - expected).abs()
    return Observation(
        expected.tolist(), observed.tolist(), wrong=bool(follows[inputs[0] < 0].all())
    )


if __name__ == "__main__":
    main(observe)
