"""Arm's quantizer gives a negation another scale than its input, and NEGATE has none."""

import torch
from common import Observation, main
from executorch.exir import to_edge_transform_and_lower

X = torch.linspace(-2.0, 2.0, 9)[None]


class Negated(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -torch.relu(x)


def observe() -> Observation:
    from executorch.backends.arm.quantizer import (
        TOSAQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.backends.arm.test.runner_utils import TosaReferenceModelDispatch
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    specification = TosaCompileSpec("TOSA-1.0+INT")
    quantizer = TOSAQuantizer(specification).set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(Negated(), (X,)).module(), quantizer)
    prepared(X)
    quantized = convert_pt2e(prepared)
    edge = to_edge_transform_and_lower(
        torch.export.export(quantized, (X,)), partitioner=[TOSAPartitioner(specification)]
    )
    with TosaReferenceModelDispatch():
        observed = edge.exported_program().module()(X)
    expected = quantized(X)
    step = 4 / 255  # of the input; that of the output is half of it
    return Observation(
        [round(value, 3) for value in expected.flatten().tolist()],
        [round(value, 3) for value in observed.flatten().tolist()],
        wrong=bool((observed - expected).abs().max() > 10 * step),
    )


if __name__ == "__main__":
    main(observe)
