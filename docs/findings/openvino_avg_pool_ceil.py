"""OpenVINO divides by the kernel where the last window of an average pool ends outside."""

import torch
from common import Observation, execute, main
from openvino_package import lower_program


def observe() -> Observation:
    pool = torch.nn.AvgPool1d(3, stride=2, padding=1, ceil_mode=True)
    x = torch.ones(1, 1, 4)
    observed = execute(lower_program(pool, (x,)), [x])[0].flatten().tolist()
    expected = pool(x).flatten().tolist()
    return Observation(expected, observed, wrong=abs(observed[-1] - expected[-1]) > 0.01)


if __name__ == "__main__":
    main(observe)
