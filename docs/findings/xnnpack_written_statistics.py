"""XNNPACK ends the process where a program writes a running statistic that it normalizes by."""

import signal
import subprocess
import sys

import torch
from common import Observation, execute, lower, main

X = torch.randn(1, 4, 5, 6)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("variance", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = torch.nn.functional.batch_norm(x, self.mean, self.variance)
        self.mean.add_(0.5)
        return result


def observe() -> Observation:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    program = bytes(lower(Net(), (X,), XnnpackPartitioner()).to_executorch().buffer)
    child = subprocess.run([sys.executable, __file__, "run"], input=program, capture_output=True)
    ended = child.returncode
    observed = f"killed by {signal.Signals(-ended).name}" if ended < 0 else f"exit {ended}"
    return Observation("a result", observed, wrong=ended < 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        execute(sys.stdin.buffer.read(), (X,))
    else:
        main(observe)
