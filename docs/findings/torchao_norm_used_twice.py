"""prepare_pt2e drops the bias of a batch norm behind a layer without bias that is used twice."""

import torch
from common import Observation, main

X = torch.zeros(2, 4)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4, bias=False)
        self.norm = torch.nn.BatchNorm1d(4)
        torch.nn.init.constant_(self.norm.bias, 3.0)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.norm(self.layer(x)), self.norm(self.layer(y))


def observe() -> Observation:
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    quantizer = xnnpack.XNNPACKQuantizer()
    quantizer.set_global(xnnpack.get_symmetric_quantization_config())
    net = Net().eval()
    exported = torch.export.export(net, (X, X)).module(check_guards=False)
    expected = net(X, X)[0][0, 0].item()
    observed = prepare_pt2e(exported, quantizer)(X, X)[0][0, 0].item()
    return Observation(expected, observed, wrong=abs(expected - observed) > 1e-3)


if __name__ == "__main__":
    main(observe)
