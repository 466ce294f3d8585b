"""MLX writes a payload that its runtime cannot load if two delegates read one constant, and one of
them reads it twice."""

import torch
from common import Observation, main
from mlx_package import lowered

X = torch.randn(2, 3)


class Shared(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.randn(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        condition = (x * self.scale).sum() > 0
        chosen = torch.cond(condition, lambda x: x * 2, lambda x: x - 1, (x,))
        return chosen * self.scale, x + self.scale


def observe() -> Observation:
    graph_module = lowered(Shared(), (X,)).exported_program().graph_module
    from executorch.backends.mlx.pte_inspector import parse_mlx_payload

    nameless = {}
    for name, part in graph_module.named_children():
        if not hasattr(part, "processed_bytes") or part.backend_id != "MLXBackend":
            continue
        graph = parse_mlx_payload(bytes(part.processed_bytes))["graph"]
        named = {each["slot_idx"] for each in graph["named_slots"] if not each["slot_type"]}
        nameless[name] = [at for at in range(graph["num_constant_tensors"]) if at not in named]
    return Observation(
        "a name for each constant of each delegate",
        f"constants without one: {nameless}",
        wrong=any(nameless.values()),
    )


if __name__ == "__main__":
    main(observe)
