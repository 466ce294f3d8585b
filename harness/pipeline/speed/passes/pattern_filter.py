"""Avoid building XNNPACK's patterns for graphs that cannot match them.

XNNPACK searches each graph for attention and bilinear upsampling with patterns that it exports once
a process: six programs, two seconds. A graph without their required operators has no match.

Assumes that each pattern needs an operator named in :data:`NEEDED`. Verified by digests of the
functions that define the patterns, and of the passes (``originals``).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from executorch.backends.xnnpack._passes.convert_to_sdpa import ConvertToSDPAPass
from executorch.backends.xnnpack._passes.convert_to_upsample_bilinear2d import (
    ConvertToUpsampleBilinear2d,
)
from executorch.backends.xnnpack._passes.xnnpack_pass import XNNPACKPass
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult

from harness.vendors.replacements import AttributeReplacer

# Parts of names. A decomposed attention has a softmax, a decomposed upsampling an index.
NEEDED = {
    ConvertToSDPAPass: ("softmax", "scaled_dot_product_attention"),
    ConvertToUpsampleBilinear2d: ("index", "upsample_bilinear2d"),
}
"""By pass: each of its patterns has an operator whose name contains one of these parts."""


def _unless_unmatched(call: Callable[..., PassResult], needed: tuple[str, ...]) -> Any:
    """Wrap a pass's ``call`` so that it skips the search where no match is possible."""

    logger = logging.getLogger(call.__module__)

    @functools.wraps(call)
    def called(converting: XNNPACKPass, graph_module: GraphModule) -> PassResult:
        if logger.isEnabledFor(logging.DEBUG):  # it logs the search
            return call(converting, graph_module)
        names = {str(node.target) for node in graph_module.graph.nodes}
        if any(part in name for name in names for part in needed):
            return call(converting, graph_module)
        graph_module.recompile()
        walked = XNNPACKPass.call(converting, graph_module).graph_module
        return PassResult(walked, True)

    return called


def install(replace: AttributeReplacer) -> None:
    """Skip searches without a possible match from now on."""
    for converting, needed in NEEDED.items():
        replace(converting, "call", _unless_unmatched(converting.call, needed))
