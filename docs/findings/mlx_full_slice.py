"""MLX's RemoveNoOpsPass removes a slice of dynamic length that the example makes full."""

import torch
from common import Observation, main
from mlx_package import install

X = torch.randn(8, 4)


class Positions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table[: x.shape[0]]


def observe() -> Observation:
    install()
    from executorch.backends.mlx.passes import RemoveNoOpsPass
    from executorch.exir import to_edge

    length = torch.export.Dim("length", min=1, max=8)
    exported = torch.export.export(Positions(), (X,), dynamic_shapes=({0: length},))
    program = to_edge(exported).exported_program()
    RemoveNoOpsPass().call(program.graph_module)
    left = [node.name for node in program.graph.nodes if "slice" in str(node.target)]
    return Observation("a slice", left or "no slice", wrong=not left)


if __name__ == "__main__":
    main(observe)
