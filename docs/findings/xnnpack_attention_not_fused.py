"""XNNPACK's delegate never fuses attention, although it has a pass for it."""

import torch
from common import Observation, lower, main

HEADS = tuple(torch.randn(8, 16, 32, 64) for _ in range(3))
MASK = torch.zeros(32, 32)


class Attention(torch.nn.Module):
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def observe() -> Observation:
    from executorch.backends.xnnpack._passes import ConvertToSDPAPass
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    fused, create = [], ConvertToSDPAPass.create_sdpa
    ConvertToSDPAPass.create_sdpa = lambda *given: (fused.append(given), create(*given))[1]
    edge = lower(Attention(), (*HEADS, MASK), XnnpackPartitioner())
    left = [n.target.__name__ for n in edge.exported_program().graph.nodes if callable(n.target)]
    print("fallback nodes:", *(name for name in left if name.startswith("aten")))
    return Observation("1 attention fused", f"{len(fused)} fused", wrong=not fused)


if __name__ == "__main__":
    main(observe)
