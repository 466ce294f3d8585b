"""Patterns that XNNPACK's quantizer looks for, traced once a process.

Each annotation of a program traces twelve of them, convolution and batch norm for training, in
over a second. They depend on nothing of the program.
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
    # The function is a new one each time; its code and the values it closes over are not.
    closure = tuple(cell.cell_contents for cell in pattern.fn.__closure__ or ())
    shapes = tuple(tensor.shape for tensor in example_inputs)
    key = (pattern.fn.__code__, closure, shapes, is_cuda)
    if key not in _traced:
        _traced[key] = _upstream(pattern, example_inputs, is_cuda)
    return copy.deepcopy(_traced[key])  # matching edits it


def install(replace: AttributeReplacer) -> None:
    """Trace each pattern once from now on."""
    replace(utils, _NAME, _trace_once)
