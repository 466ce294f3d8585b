"""Inductor treats a buffer of one element as a constant, although the program writes it."""

import tempfile
from pathlib import Path

import torch
from common import Observation, main


class Counted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return x + self.calls


def observe() -> Observation:
    """Compile for the host with AOTInductor, as Metal's backend does; no Mac is needed."""
    x = torch.zeros(2)
    program = torch.export.export(Counted(), (x,)).run_decompositions()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "counted.pt2")
        made = torch._inductor.aoti_compile_and_package(program, package_path=path)
        module = torch._inductor.aoti_load_package(made)
        observed = [module(x)[0].item() for _ in range(3)]
    return Observation([1.0, 2.0, 3.0], observed, wrong=observed == [1.0, 1.0, 1.0])


if __name__ == "__main__":
    main(observe)
