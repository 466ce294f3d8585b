"""OpenVINO computes grouped convolutions of int8 wrongly where it uses AVX2."""

import os

import torch
from common import Observation, execute, main
from openvino_package import lower_program, make_partitioner

# As on a processor without AVX-512 and VNNI.
os.environ["OV_CPU_MAX_ISA"] = os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"


def observe() -> Observation:
    make_partitioner()
    from executorch.backends.openvino.quantizer import OpenVINOQuantizer
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    layer, x = torch.nn.Conv2d(4, 6, 3, groups=2).eval(), torch.randn(1, 4, 8, 8)
    exported = torch.export.export(layer, (x,)).module(check_guards=False)
    prepared = prepare_pt2e(exported, OpenVINOQuantizer())
    prepared(x)
    quantized = convert_pt2e(prepared, fold_quantize=False)
    expected = quantized(x)
    observed = execute(lower_program(quantized, (x,)), [x])[0]
    error = float((observed - expected).abs().max())
    return Observation(
        f"values up to {float(expected.abs().max()):.2g}, an error of a step of a weight, 0.01",
        f"an error of {error:.2g}",
        wrong=error > 0.05,
    )


if __name__ == "__main__":
    main(observe)
