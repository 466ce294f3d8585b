"""XNNPACK takes a float conv1d beside a quantized one for a quantized one."""

import torch
from common import Observation, execute, main
from executorch.exir import to_edge_transform_and_lower


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv1d(4, 4, 3, padding=1)
        self.second = torch.nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    module, inputs = Net().eval(), (torch.randn(1, 4, 8),)

    def run_with_float(name: str) -> str:
        """Leave one of the two layers in float, lower and run."""

        def is_quantized(node: torch.fx.Node) -> bool:
            paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
            return name not in paths

        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
        quantizer.set_filter_function(is_quantized)
        prepared = prepare_pt2e(torch.export.export(module, inputs).module(), quantizer)
        prepared(*inputs)
        quantized = convert_pt2e(prepared)
        program = torch.export.export(quantized, inputs)
        try:
            edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
            (observed,) = execute(bytes(edge.to_executorch().buffer), inputs)
        except RuntimeError as error:
            return str(error).splitlines()[0]
        off = (observed - quantized(*inputs)).abs().max()
        return "right" if off < 0.05 else f"off by {float(off):.3g}"

    observed = [run_with_float(name) for name in ("second", "first")]
    return Observation(["right", "right"], observed, wrong=observed != ["right", "right"])


if __name__ == "__main__":
    main(observe)
