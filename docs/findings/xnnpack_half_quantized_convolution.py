"""XNNPACK writes a quantized convolution's result as float32 where the program has float16."""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from common import Observation, main
from executorch.exir import to_edge_transform_and_lower

# The delegate overwrites memory behind its output, so a process of its own executes it.
CHILD = """
import sys, torch
from executorch.runtime import Runtime
folder = sys.argv[1]
method = Runtime.get().load_program(folder + "/program.pte").load_method("forward")
(result,) = method.execute([torch.load(folder + "/x.pt")])
torch.save(result.clone(), folder + "/y.pt")
"""


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    module = torch.nn.Conv2d(3, 4, 3).eval().half()
    inputs = (torch.randn(1, 3, 8, 8, dtype=torch.float16),)
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(), quantizer)
    prepared(*inputs)
    quantized = convert_pt2e(prepared)
    expected = quantized(*inputs)
    program = torch.export.export(quantized, inputs)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.pte").write_bytes(edge.to_executorch().buffer)
        torch.save(inputs[0], Path(folder, "x.pt"))
        child = subprocess.run([sys.executable, "-c", CHILD, folder], capture_output=True)
        if child.returncode < 0:
            return Observation("a result", f"signal {-child.returncode}", wrong=True)
        observed = torch.load(Path(folder, "y.pt"))
    off = float((observed - expected).abs().max())
    text = f"largest value {float(observed.abs().max()):.4g}, off by {off:.4g}"
    return Observation(
        f"largest value {float(expected.abs().max()):.4g}", text, wrong=not off < 0.02
    )


if __name__ == "__main__":
    main(observe)
