"""prepare_pt2e folds a batch norm into a layer whose result is read elsewhere as well."""

import torch
from common import Observation, main


class Beside(torch.nn.Module):
    """The sigmoid reads the layer's result, the batch norm as well."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        self.norm.running_mean.fill_(1.0)
        self.norm.running_var.fill_(4.0)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.layer(x)
        return self.norm(hidden), hidden.sigmoid()


def observe() -> Observation:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    torch.manual_seed(0)
    module, inputs = Beside().eval(), (torch.randn(1, 3, 5, 5),)
    expected = module(*inputs)[1].flatten()
    exported = torch.export.export(module, inputs).module()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    # Observers only look at values: the prepared module is the float module.
    observed = prepare_pt2e(exported, quantizer)(*inputs)[1].flatten()
    return Observation(
        expected[:4].tolist(), observed[:4].tolist(), wrong=not torch.allclose(expected, observed)
    )


if __name__ == "__main__":
    main(observe)
