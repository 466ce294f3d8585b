"""OpenVINO ends the process that lowers an embedding of no tokens."""

import signal
import subprocess
import sys

import torch
from common import Observation, main
from openvino_package import lower_program, make_partitioner

LAYER, TOKENS = torch.nn.Embedding(4, 3), torch.zeros(2, 0, dtype=torch.int64)


def observe() -> Observation:
    make_partitioner()
    child = subprocess.run([sys.executable, __file__, "lower"], capture_output=True)
    ended = child.returncode
    observed = f"killed by {signal.Signals(-ended).name}" if ended < 0 else f"exit {ended}"
    return Observation(
        f"exit 0, and a result of shape {tuple(LAYER(TOKENS).shape)}",
        observed,
        wrong=ended == -signal.SIGFPE,
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["lower"]:
        lower_program(LAYER, (TOKENS,))
    else:
        main(observe)
