"""Base names of operators: one name for all forms in programs, graphs and suites."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")
_IN_PLACE = re.compile(r"(?<=\w)_$")
_ALIASES = {
    "_to_dim_order_copy": "to",
    "_to_copy": "to",
    "_clone_dim_order": "clone",
    "_native_batch_norm_legit_no_training": "batch_norm",
    "_native_batch_norm_legit": "batch_norm",
    "bitwise_not": "logical_not",
    "constant_pad_nd": "pad",
    "conv1d": "convolution",
    "conv2d": "convolution",
    "conv3d": "convolution",
    "conv_transpose1d": "convolution",
    "conv_transpose2d": "convolution",
    "conv_transpose3d": "convolution",
    "_pdist_forward": "pdist",
    "_cdist_forward": "cdist",
    "floor_divide": "div",
    "true_divide": "div",
    "index_put_impl": "index_put",
    "softmax_int": "softmax",
    "reflection_pad1d": "pad",
    "reflection_pad2d": "pad",
}


def base_name(operator: str) -> str:
    """``softmax`` of ``aten._softmax.default``, ``slice`` of ``aten.slice_copy.Tensor``, ``add`` of
    ``aten.add_.Tensor``: without namespace, overload, and what tells forms of one operator apart.

    Args:
        operator: its name as reports spell it, or its bare name.
    """
    parts = operator.split(".")
    name = parts[1] if len(parts) > 2 else parts[0]
    if name in _ALIASES:
        return _ALIASES[name]
    name = _IN_PLACE.sub("", name).removeprefix("native_").removeprefix("_")
    name = name.removesuffix("_copy").removesuffix("_with_indices")
    return _ALIASES.get(name, name)


def find_operator_names(text: str) -> list[str]:
    """The base names of the operators that a text names in full, such as
    ``tosa.ABS.default of aten.abs.default``, and those without a namespace, such as ``cond``."""
    named = [found for found in _NAME.findall(text) if found.count(".") > 1]
    return [base_name(name) for name in [*named, *filter(str.isidentifier, text.split(" + "))]]
