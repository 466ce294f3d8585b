"""The kernel that quantizes by channel ends the process for the scales that PT2E gives it."""

import signal
import subprocess
import sys

import torch
from common import (
    Observation,
    execute,
    main,
    quantize_for_xnnpack,
    to_edge_transform_and_lower,
)

INPUTS = (torch.ones(1, 2), torch.ones(3, 2))


class Given(torch.nn.Module):
    """A layer whose weight is an input."""

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, weight)


def observe() -> Observation:
    """Quantize with XNNPACK's quantizer, by channel, and run the program in a child process."""
    import executorch.kernels.quantized  # noqa: F401  (registers the kernels)
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    quantized = quantize_for_xnnpack(Given(), INPUTS, is_per_channel=True)
    edge = to_edge_transform_and_lower(quantized, partitioner=[XnnpackPartitioner()])
    program = bytes(edge.to_executorch().buffer)
    child = subprocess.run([sys.executable, __file__, "run"], input=program, capture_output=True)
    ended = child.returncode
    observed = f"killed by {signal.Signals(-ended).name}" if ended < 0 else f"exit {ended}"
    expected = [round(value, 2) for value in quantized.module()(*INPUTS).flatten().tolist()]
    return Observation(expected, observed, wrong=ended == -signal.SIGABRT)


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        import executorch.kernels.quantized  # noqa: F401

        execute(sys.stdin.buffer.read(), INPUTS)
    else:
        main(observe)
