"""Arm's quantizer drops in-place writes of a model to its buffers."""

import torch
from common import Observation, main

X = torch.ones(2)


class Running(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x)
        return x + self.seen


def observe() -> Observation:
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    quantizer = TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT"))
    quantizer.set_global(get_symmetric_quantization_config())
    float_graph = torch.export.export(Running().eval(), (X,)).module(check_guards=False)
    prepared = prepare_pt2e(float_graph, quantizer)
    eager = Running()
    expected = [eager(X).tolist() for _ in range(2)]
    observed = [prepared(X).tolist() for _ in range(2)]
    return Observation(expected, observed, wrong=expected != observed)


if __name__ == "__main__":
    main(observe)
