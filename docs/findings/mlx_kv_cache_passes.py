"""MLX's default passes break its own KV cache: the module lowers only without them."""

import torch
from common import Observation, main
from mlx_package import install, lowered


class Cached(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from executorch.backends.mlx.llm.cache import KVCache

        self.cache = KVCache(1, 32, 2, 8, enable_dynamic_shape=True)

    def forward(
        self, position: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start = position[0].item()
        torch._check(start >= 0)
        torch._check(start + k.shape[2] <= 32)
        return self.cache.update(start, k, v)


def ending(passes: bool) -> str:
    step = torch.randn(1, 2, 1, 8)
    try:
        lowered(Cached(), (torch.tensor([0]), step, step), passes)
    except AssertionError as error:
        return f"AssertionError: {error}"
    return "lowers"


def observe() -> Observation:
    install()
    print(f"without passes: {ending(passes=False)}")
    observed = ending(passes=True)
    return Observation("lowers", observed, wrong="already set" in observed)


if __name__ == "__main__":
    main(observe)
