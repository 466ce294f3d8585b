"""Exir's dtype check of a split makes the length of the example the only one."""

from typing import Any

import torch
from common import Observation, load, main
from executorch.exir import EdgeCompileConfig, to_edge


class Split(torch.nn.Module):
    """All rows but the last three."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.split(self.layer(x), [x.shape[0] - 3, 3])[0]


def shape_of_five(**options: Any) -> Any:
    """The shape of the result for 5 rows, in a program for 5 to 8 that was exported with 6."""
    rows = torch.export.Dim("rows", min=5, max=8)
    exported = torch.export.export(
        Split().eval(), (torch.randn(6, 4),), dynamic_shapes=({0: rows},)
    )
    edge = to_edge(exported, compile_config=EdgeCompileConfig(**options))
    data = bytes(edge.to_executorch().buffer)  # The method reads the program while it runs.
    program = load(data)
    program.execute([torch.randn(6, 4)])  # The length of the example always works.
    try:
        return list(program.execute([torch.randn(5, 4)])[0].shape)
    except RuntimeError as error:
        return str(error)


def observe() -> Observation:
    expected = shape_of_five(_check_ir_validity=False)
    if expected != [2, 4]:
        raise AssertionError(f"{expected} without the check: not what the finding says")
    observed = shape_of_five()
    return Observation(expected, observed, wrong="failed with error 0x12" in str(observed))


if __name__ == "__main__":
    main(observe)
