"""Keep the patterns that CoreML's quantizer matches: it exports some 400 for every program.

Each takes Dynamo a sixth of a second, so that quantizing one layer takes a minute. A pattern is a
function of a few operators. A matcher changes the graph that it is given, so that it gets a copy.
Patterns of a convolution, a linear layer or a sum match nothing in a program without one, and are
not made for it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.backend_api import is_sped_up
from harness.vendors.replacements import AttributeReplacer, has_replaced

if TYPE_CHECKING:
    import torch

_PART = "coreml.patterns"
_PATTERNS = (
    "get_conv_pattern",
    "get_conv_bn_pattern",
    "get_linear_pattern",
    "get_linear_bn_pattern",
    "get_binary_op_act_pattern",
)


def keep_patterns() -> None:
    """Let the quantizer make each pattern once in this process; not with ``--no-speed``."""
    if is_sped_up() and not has_replaced(_PART):
        _replace()


def _replace() -> None:
    from executorch.backends.apple.coreml.quantizer import _coreml_quantizer_utils as utilities

    replace = AttributeReplacer(_PART)
    for name in _PATTERNS:
        replace(utilities, name, _copy_kept(vars(utilities)[name]))
    for name, operators in (
        ("annotate_conv_bn_act_helper", ("conv",)),
        ("annotate_linear_bn_act_helper", ("linear",)),
    ):
        replace(utilities, name, _skip_without(vars(utilities)[name], operators))
    binary = utilities.annotate_binary_op_helper
    replace(utilities, "annotate_binary_op_helper", _skip_without(binary, ()))


def _copy_kept(make: Callable[..., torch.fx.GraphModule]) -> Callable[..., torch.fx.GraphModule]:
    kept = functools.cache(make)
    return functools.wraps(make)(lambda *given, **named: copy.deepcopy(kept(*given, **named)))


def _skip_without(annotate: Callable[..., Any], operators: tuple[str, ...]) -> Callable[..., Any]:
    """Return a function that returns no partitions for a program without certain operators.

    Args:
        annotate: takes the program first.
        operators: beginnings of the operators' ATen names; empty for the functions that are the
            second argument.
    """

    @functools.wraps(annotate)
    def annotated(model: torch.fx.GraphModule, *given: Any, **named: Any) -> Any:
        wanted = operators or tuple(function.__name__.lstrip("i") for function in given[0])
        if any(
            str(node.target).startswith(f"aten.{name}")
            for node in model.graph.nodes
            for name in wanted
        ):
            return annotate(model, *given, **named)
        # As each match does first.
        model.graph.eliminate_dead_code()
        model.recompile()
        return []

    return annotated
