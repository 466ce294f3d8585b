"""Avoid retracing the patterns of XNNPACK's quantizer for every program.

Each annotation traces twelve patterns, convolution and batch norm for training, in over a second.

Assumes that a pattern depends only on its code, closure, input shapes and device. Verified by
digests of the tracing function and its caller (``originals``).
"""

from __future__ import annotations

import copy
import functools
from typing import Any

from executorch.backends.xnnpack.quantizer import xnnpack_quantizer_utils as utils
from torch.fx import GraphModule

from harness.vendors.replacements import AttributeReplacer

_NAME = "_get_aten_graph_module_for_pattern"
_upstream = getattr(utils, _NAME)


_traced: dict[Any, GraphModule] = {}


@functools.wraps(_upstream)
def _trace_once(pattern: Any, example_inputs: tuple[Any, ...], is_cuda: bool = False) -> Any:
    # Each call passes a new function with the same code and closure values.
    closure = tuple(cell.cell_contents for cell in pattern.fn.__closure__ or ())
    shapes = tuple(tensor.shape for tensor in example_inputs)
    key = (pattern.fn.__code__, closure, shapes, is_cuda)
    if key not in _traced:
        _traced[key] = _upstream(pattern, example_inputs, is_cuda)
    return copy.deepcopy(_traced[key])  # the matcher modifies it


def install(replace: AttributeReplacer) -> None:
    """Trace each pattern once from now on."""
    replace(utils, _NAME, _trace_once)
