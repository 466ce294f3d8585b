"""The passes that MLX runs before it partitions, one by one and all in their order."""

from __future__ import annotations

import torch

from harness import Case, PassCase
from suites.passes.graphs import CAST, MOVED, NIGHTLY, REPEATED, WRITABLE, graph

BARE = "mlx:fp32-passes"
ALL = ("+fuse_rms_norm+canonicalize_permute+collapse_view_copy+collapse_permute"
       "+collapse_dtype_conversion+remove_no_ops+cse+mlx_reinplace")  # fmt: skip


class Norm(torch.nn.Module):
    """The root mean square norm of Llama, as in its model."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(mean + 1e-5))


NORMS = [
    Case("norm", lambda: (Norm(), (torch.randn(4, 6),))),
    graph("squares_used_twice", lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
          + x.pow(2)),
]  # fmt: skip

CASES = [
    *PassCase("mlx_fuse_rms_norm", "+fuse_rms_norm", NORMS, BARE).cases,
    *PassCase("mlx_canonicalize_permute", "+canonicalize_permute", MOVED, BARE, NIGHTLY).cases,
    *PassCase("mlx_collapse_view_copy", "+collapse_view_copy", MOVED, BARE, NIGHTLY).cases,
    *PassCase("mlx_collapse_permute", "+collapse_permute", MOVED, BARE, NIGHTLY).cases,
    *PassCase("mlx_collapse_dtype", "+collapse_dtype_conversion", CAST, BARE).cases,
    *PassCase("mlx_remove_no_ops", "+remove_no_ops", MOVED, BARE, NIGHTLY).cases,
    *PassCase("mlx_cse", "+cse", REPEATED, BARE).cases,
    *PassCase("mlx_reinplace", "+mlx_reinplace", WRITABLE, BARE).cases,
    *PassCase("mlx_in_order", ALL, [*MOVED, *WRITABLE, *NORMS], BARE).cases,
]
