"""The sum of a 0-D tensor over dimension -1 ends the process."""

import signal
import subprocess
import sys

import torch
from common import Observation, execute, lower, main

X = torch.tensor(3.0)


class Sum(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(-1)


def observe() -> Observation:
    program = bytes(lower(Sum(), (X,)).to_executorch().buffer)
    child = subprocess.run([sys.executable, __file__, "run"], input=program, capture_output=True)
    ended = child.returncode
    observed = f"killed by {signal.Signals(-ended).name}" if ended < 0 else f"exit {ended}"
    return Observation(f"{Sum()(X)}", observed, wrong=ended < 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        execute(sys.stdin.buffer.read(), (X,))
    else:
        main(observe)
