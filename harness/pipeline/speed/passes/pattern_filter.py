"""Patterns that a graph cannot match, not made.

XNNPACK looks for attention and for bilinear upsampling in each graph, by programs that it exports
to that end, once a process: six, in some two seconds. A graph that calls none of what they cannot
do without has no match.
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

# Part of a name: attention normalizes its scores and upsampling reads by index, where they are not
# left whole.
NEEDED = {
    ConvertToSDPAPass: ("softmax", "scaled_dot_product_attention"),
    ConvertToUpsampleBilinear2d: ("index", "upsample_bilinear2d"),
}
"""By the pass, what one of the operators of each of its patterns has in its name."""


def _unless_unmatched(call: Callable[..., PassResult], needed: tuple[str, ...]) -> Any:
    """A pass's call, without its search where nothing is to be found."""

    logger = logging.getLogger(call.__module__)

    @functools.wraps(call)
    def called(converting: XNNPACKPass, graph_module: GraphModule) -> PassResult:
        if logger.isEnabledFor(logging.DEBUG):  # it tells that it searches
            return call(converting, graph_module)
        names = {str(node.target) for node in graph_module.graph.nodes}
        if any(part in name for name in names for part in needed):
            return call(converting, graph_module)
        graph_module.recompile()
        walked = XNNPACKPass.call(converting, graph_module).graph_module
        return PassResult(walked, True)

    return called


def install(replace: AttributeReplacer) -> None:
    """Leave the search out where it finds nothing from now on."""
    for converting, needed in NEEDED.items():
        replace(converting, "call", _unless_unmatched(converting.call, needed))
