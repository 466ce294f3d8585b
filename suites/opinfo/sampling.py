"""Programs of torch's own operator samples (``torch.testing._internal``).

Torch describes each operator's inputs to test itself with: broadcasting ones, empty ones, every
keyword. An entry of that database at one dtype yields samples in a fixed order; a program is one of
them by number. Which numbers are taken is written down in ``samples.json``, so that the names of
cases are known without the database, whose import takes seconds.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import torch

from harness import Inputs
from harness.vendors.torch import TreeSpec, _dispatch_get_all_op_names, tree_flatten, tree_unflatten

DTYPES = ("float32", "bfloat16", "float16", "int32", "int64", "bool")
"""Of the samples."""

ALSO = frozenset(
    f"nn.functional.{name}"
    for name in (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d batch_norm celu conv1d conv2d "
        "conv3d conv_transpose1d conv_transpose2d conv_transpose3d elu embedding embedding_bag "
        "group_norm grid_sample hardswish interpolate layer_norm linear log_softmax max_pool2d "
        "max_pool3d pad pixel_shuffle rms_norm scaled_dot_product_attention silu softmin"
    ).split()
) | {"cdist", "index_put", "log_softmax", "masked_fill", "softmax", "stack", "tril", "unbind"}
"""Entries under names of their own that decompose to operators of the core set."""

LEFT_OUT = {
    "as_strided": "names a storage, which a program has no say in",
    "as_strided/partial_views": "names a storage, which a program has no say in",
    "bmm/triton_optimized": "the same as bmm, on a GPU",
    "empty": "its values are undefined",
    "empty_strided": "its values are undefined",
    "nn.functional.max_pool2d_backward": "of training",
    "max_pool2d_with_indices_backward": "of training",
    "nonzero": "how much it returns depends on values; suites/ops has it",
    "resize_": "its values are undefined where the size grows",
    "rand_like": "draws",
    "randn": "draws",
    "native_dropout_backward": "of training",
}
"""Entries of the core set that are no cases, and why."""


REFUSALS = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)
"""What torch raises where it does not compute."""


class Sample(torch.nn.Module):
    """An operator with everything of a sample that is no tensor.

    Args:
        op: what is called.
        spec: tree of the arguments.
        leaves: those that are no tensors; None where an input goes.
        strided: whether inputs come transposed and are turned back, so that what the operator
            sees does not lie row by row.
    """

    def __init__(self, op: Any, spec: TreeSpec, leaves: list[Any], strided: bool) -> None:
        super().__init__()
        self.op, self.spec, self.leaves, self.strided = op, spec, leaves, strided

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if leaf is _INPUT else leaf for leaf in self.leaves]
        if self.strided:
            leaves = [_turned(leaf) for leaf in leaves]
        args, kwargs = tree_unflatten(leaves, self.spec)
        made = self.op(*args, **kwargs)
        # A program's outputs are described in words that named tuples of torch are none of.
        return tuple(made) if isinstance(made, tuple | list) else made


class _Input:
    """Where a tensor goes; copies of it are itself."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Input:
        return self


_INPUT = _Input()


def _turned(item: Any) -> Any:
    return item.mT if isinstance(item, torch.Tensor) and item.dim() > 1 else item


@dataclass(frozen=True)
class Pick:
    """One sample of an operator.

    Attributes:
        entry: name of the database's entry, with its variant behind a slash.
        dtype: name of the dtype that samples are asked for.
        number: of the sample among those.
        strided: whether its tensors lie otherwise than row by row.
    """

    entry: str
    dtype: str
    number: int
    strided: bool

    def build(self) -> tuple[torch.nn.Module, Inputs]:
        """The module, and its inputs drawn from torch's global generator.

        Raises:
            LookupError: the installed torch has no such sample.
        """
        info = entries().get(self.entry)
        sample = None
        if info:
            # Left to the garbage collector, torch's generators end amid whatever runs by then.
            with contextlib.closing(samples(info, self.dtype)) as found:
                sample = next(itertools.islice(found, self.number, None), None)
        if sample is None:
            raise LookupError(
                f"torch {torch.__version__} has no sample {self.number} of {self.entry} in "
                f"{self.dtype}; python -m suites.opinfo.choose writes samples.json anew"
            )
        return program(info, sample, self.strided)


def program(info: Any, sample: Any, strided: bool) -> tuple[torch.nn.Module, Inputs]:
    """A module and inputs of what the database calls a SampleInput."""
    leaves, spec = tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
    is_input = [isinstance(leaf, torch.Tensor) for leaf in leaves]
    tensors = [leaf.detach() for leaf, given in zip(leaves, is_input, strict=True) if given]
    rest = [_INPUT if given else leaf for leaf, given in zip(leaves, is_input, strict=True)]
    if strided:
        tensors = [_turned(tensor) for tensor in tensors]
    # Not contiguous(), which leaves a dimension of size 1 with any stride that it has.
    inputs = tuple(tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors)
    return Sample(info.op, spec, rest, strided), inputs


@functools.cache
def entries() -> dict[str, Any]:
    """The database's entries of the core set, by name with variant."""
    from harness.vendors.torch import op_db

    core = core_operators()
    found: dict[str, Any] = {}
    for info in op_db:
        name = "/".join(filter(None, (info.name, info.variant_test_name)))
        wanted = info.aten_name in core or info.name in ALSO
        if wanted and info.name not in LEFT_OUT and name not in LEFT_OUT:
            found[name] = info
    return found


def core_operators() -> frozenset[str]:
    """Names of the operators that torch tags as core."""
    found = set()
    for qualified in _dispatch_get_all_op_names():
        namespace, _, name = qualified.partition("::")
        base, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, base, None) if namespace == "aten" else None
        operator = getattr(packet, overload or "default", None)
        if operator is not None and torch.Tag.core in operator.tags:
            found.add(base)
    return frozenset(found)


def samples(info: Any, dtype: str) -> Generator[Any]:
    """What an entry yields for a dtype, in its order; nothing where it has none."""
    wanted = getattr(torch, dtype)
    if info.supports_dtype(wanted, "cpu"):
        # sample_inputs would seed each draw, and keep the generator in a circle of references.
        yield from info.sample_inputs_func(info, "cpu", wanted, False)
