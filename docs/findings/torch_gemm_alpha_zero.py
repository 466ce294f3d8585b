"""Eager baddbmm in bfloat16 ignores beta if alpha is 0, and returns uninitialized memory."""

import torch
from common import CannotTry, Observation, main


def observe() -> Observation:
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        raise CannotTry("this CPU has no AVX-512, without which oneDNN is not asked")
    ones = torch.ones(1, 64, 64, dtype=torch.bfloat16)
    halved, nothing = (torch.baddbmm(ones, ones, ones, beta=beta, alpha=0) for beta in (0.5, 0))
    seen = halved[0, 0, 0].item(), nothing.abs().max().item()
    return Observation((0.5, 0.0), seen, wrong=seen != (0.5, 0.0))


if __name__ == "__main__":
    main(observe)
