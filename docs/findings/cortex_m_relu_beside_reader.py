"""Cortex-M applies a relu to int8 codes where its input has another reader."""

import torch
from common import Observation, main


class Residual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        torch.nn.init.ones_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return torch.relu(y) + y


def observe() -> Observation:
    from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
    from executorch.exir import to_edge
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    inputs = (torch.tensor([[-1.0], [-0.5], [0.0], [1.0], [2.0], [3.0]]),)
    exported = torch.export.export(Residual().eval(), inputs)
    prepared = prepare_pt2e(exported.module(check_guards=False), CortexMQuantizer())
    prepared(*inputs)
    quantized = convert_pt2e(prepared)
    edge = to_edge(
        torch.export.export(quantized, inputs), compile_config=cortex_m_edge_compile_config()
    )
    lowered = CortexMPassManager(edge.exported_program()).transform()
    expected, observed = quantized(*inputs), lowered.module()(*inputs)
    return Observation(
        [round(value, 2) for value in expected.flatten().tolist()],
        [round(value, 2) for value in observed.flatten().tolist()],
        wrong=float((expected - observed).abs().max()) > 0.1,
    )


if __name__ == "__main__":
    main(observe)
