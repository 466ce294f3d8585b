"""Cortex-M compares and fills int8 codes with numbers that are not quantized."""

import torch
from common import Observation, main


class Gate(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0.5, x, y)


def observe() -> Observation:
    from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
    from executorch.exir import to_edge
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    x = torch.tensor([-1.0, -0.4, 0.2, 0.4, 0.6, 1.0])
    inputs = (x, torch.full_like(x, -1.0))
    prepared = prepare_pt2e(
        torch.export.export(Gate().eval(), inputs).module(check_guards=False), CortexMQuantizer()
    )
    prepared(*inputs)
    quantized = convert_pt2e(prepared)
    edge = to_edge(
        torch.export.export(quantized, inputs), compile_config=cortex_m_edge_compile_config()
    )
    lowered = CortexMPassManager(edge.exported_program()).transform()
    expected, observed = quantized(*inputs), lowered.module()(*inputs)
    return Observation(
        [round(value, 2) for value in expected.tolist()],
        [round(value, 2) for value in observed.tolist()],
        wrong=not torch.equal(expected, observed),
    )


if __name__ == "__main__":
    main(observe)
