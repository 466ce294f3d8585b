"""Arm's 16-bit quantizer and tables: a function of small values is interpolated in one segment."""

import torch
from common import Observation, main
from executorch.exir import to_edge_transform_and_lower

X = torch.linspace(0.0022, 0.03, 8)[None]  # variances of a LayerNorm


class Root(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rsqrt(x)


def observe() -> Observation:
    from executorch.backends.arm.quantizer import (
        TOSAQuantizer,
        get_symmetric_a16w8_quantization_config,
    )
    from executorch.backends.arm.test.runner_utils import TosaReferenceModelDispatch
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    specification = TosaCompileSpec("TOSA-1.0+INT+int16")
    configuration = get_symmetric_a16w8_quantization_config()
    quantizer = TOSAQuantizer(specification).set_global(configuration)
    prepared = prepare_pt2e(torch.export.export(Root(), (X,)).module(), quantizer)
    prepared(X)
    quantized = convert_pt2e(prepared)
    edge = to_edge_transform_and_lower(
        torch.export.export(quantized, (X,)), partitioner=[TOSAPartitioner(specification)]
    )
    with TosaReferenceModelDispatch():
        observed = edge.exported_program().module()(X)
    expected = quantized(X)
    return Observation(
        [round(value, 3) for value in expected.flatten().tolist()],
        [round(value, 3) for value in observed.flatten().tolist()],
        wrong=bool(((observed - expected) / expected).abs().max() > 0.1),
    )


if __name__ == "__main__":
    main(observe)
