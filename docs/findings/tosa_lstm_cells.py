"""Arm's quantizer raises for an LSTMCell whose state comes from another LSTMCell."""

import torch
from common import Observation, main

X = torch.zeros(2, 1, 4)


class Twice(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.LSTMCell(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = self.cell(x[0])
        return self.cell(x[1], state)[0]


def observe() -> Observation:
    from executorch.backends.arm.quantizer import (
        TOSAQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    quantizer = TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT"))
    quantizer.set_global(get_symmetric_quantization_config())
    error = "no error"
    try:
        prepare_pt2e(torch.export.export(Twice().eval(), (X,)).module(), quantizer)
    except Exception as raised:  # of torch's pass manager, which names the passes
        error = f"AttributeError: {raised.__cause__ or raised}"
    return Observation("no error", error, wrong="'shape'" in error)


if __name__ == "__main__":
    main(observe)
