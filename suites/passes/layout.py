"""Passes that change the memory layout of tensors or permute dimensions."""

from __future__ import annotations

import torch

from harness import Inputs, PassCase
from suites.passes.graphs import MOVED, NIGHTLY, graph

LAST = torch.channels_last


def image() -> Inputs:
    return (torch.randn(1, 3, 4, 5),)


def image_last() -> Inputs:
    return (torch.randn(1, 3, 4, 5).to(memory_format=LAST),)


# Functions without numbers: portable kernels refuse a number beside a channels-last image.
FORMATS = [
    graph("to_last", lambda x: x.to(memory_format=LAST).exp(), image),
    graph("to_first", lambda x: x.contiguous().exp(), image_last),
    graph("there_and_back", lambda x: x.to(memory_format=LAST).sin().contiguous().exp(), image),
    graph("cloned", lambda x: x.clone(memory_format=LAST).sin(), image),
    graph("kept", lambda x: x.clone().sin(), image_last),
    graph("cast", lambda x: x.to(torch.float16, memory_format=LAST).float().sin(), image),
    graph("pooled", lambda x: torch.nn.functional.avg_pool2d(x, 2), image_last),
]

PERMUTED = [
    graph("undone", lambda x: (x.permute(0, 2, 3, 1) * 2 + 1).permute(0, 3, 1, 2), image),
    graph("two_users", lambda x: (lambda p: p.exp().permute(0, 3, 1, 2) + p.sum())(
        x.permute(0, 2, 3, 1)), image),
    graph("not_undone", lambda x: (x.permute(0, 2, 3, 1) * 2).permute(0, 3, 2, 1), image),
    graph("with_another", lambda x: (x.permute(0, 2, 3, 1) + x.reshape(1, 4, 5, 3)).permute(
        0, 3, 1, 2), image),
    graph("reduced", lambda x: x.permute(0, 2, 3, 1).sum(-1, keepdim=True).permute(0, 3, 1, 2),
          image),
    graph("difference", lambda x: (0.5 - x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), image),
    graph("softmax", lambda x: x.permute(0, 2, 3, 1).softmax(1).permute(0, 3, 1, 2), image),
    graph("joined", lambda x: torch.cat([x.permute(0, 2, 3, 1), x.permute(0, 2, 3, 1) * 2], 1)
          .permute(0, 3, 1, 2), image),
    graph("squeezed", lambda x: x.permute(0, 2, 3, 1).squeeze(0) + 1, image),
    graph("unsqueezed", lambda x: x.T.unsqueeze(1) * 2),
    graph("moves_nothing", lambda x: x.reshape(4, 1, 6).permute(1, 0, 2) + 1),
    graph("three", lambda x: x.permute(1, 0, 2, 3).permute(1, 2, 0, 3).permute(0, 3, 1, 2), image),
]  # fmt: skip

MOVING = ("postpone_permute", "replace_nop_transpose", "fuse_cascaded_transpose", "remove_permutes")

CASES = [
    *PassCase("dim_order", "+dim_order_ops_revert+memory_format", FORMATS).cases,
    *PassCase("contiguous", "+enforce_contiguous", FORMATS).cases,
    *(
        case
        for name in MOVING
        for case in PassCase(name, f"+{name}", [*PERMUTED, *MOVED], tags=NIGHTLY).cases
    ),
    *PassCase("permutes_in_order", "".join(f"+{name}" for name in MOVING), PERMUTED,
              "portable:fp32|xnnpack:fp32|tosa:fp").cases,
]  # fmt: skip
