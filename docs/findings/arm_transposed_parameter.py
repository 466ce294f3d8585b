"""Arm's quantized payload returns a sum in the layout of a transposed parameter."""

import torch
from common import Observation, lower_quantized_for_tosa, main, run_lowered_on_tosa


class Shift(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.shift.T + x


def observe() -> Observation:
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config

    torch.manual_seed(0)
    inputs = (torch.randn(4, 4),)
    configuration = get_symmetric_quantization_config()
    quantized, edge = lower_quantized_for_tosa(Shift(), inputs, "TOSA-1.0+INT", configuration)
    expected = quantized(*inputs)
    observed = run_lowered_on_tosa(edge, inputs)
    (plan,) = edge.to_executorch().executorch_program.execution_plan
    result = plan.values[plan.outputs[0]].val
    declared = f"the program declares dim order {list(result.dim_order)}, and the memory"
    error = (observed - expected).abs().max().item()
    transposed = (observed.T - expected).abs().max().item()
    return Observation(
        f"{declared} holds the sum",
        f"{declared} holds a matrix off by {error:.3g}, which is the sum transposed within "
        f"{transposed:.1g}",
        wrong=list(result.dim_order) == [0, 1] and error > 1 and transposed < 1e-6,
    )


if __name__ == "__main__":
    main(observe)
