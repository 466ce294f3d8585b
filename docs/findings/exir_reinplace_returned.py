"""Exir's reinplace pass overwrites values that the program returns."""

import torch
from common import Observation, execute, main

INPUTS = (torch.zeros(4), torch.tensor([1]), torch.tensor([5.0]))


class Put(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, at: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        t = torch.exp(x)
        return t, torch.ops.aten.index_put(t, [at], y)


def observe() -> Observation:
    from executorch.exir import ExecutorchBackendConfig, to_edge

    edge = to_edge(torch.export.export(Put(), INPUTS))
    program = edge.to_executorch(ExecutorchBackendConfig(run_reinplace_pass=True))
    expected, observed = Put()(*INPUTS)[0], execute(bytes(program.buffer), INPUTS)[0]
    return Observation(
        expected.tolist(), observed.tolist(), wrong=observed.tolist() == [1.0, 5.0, 1.0, 1.0]
    )


if __name__ == "__main__":
    main(observe)
