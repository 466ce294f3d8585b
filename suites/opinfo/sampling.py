"""Programs of torch's OpInfo samples (``torch.testing._internal``).

Torch's own tests use a database of operator inputs: broadcasting inputs, empty inputs, every
keyword. An entry yields its samples for a dtype in a fixed order; a program is one sample, given by
its number. ``samples.json`` lists the chosen numbers, so that the names of cases do not need the
database, whose import takes seconds.
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
from harness.backend_api import list_operators
from harness.vendors.torch import TreeSpec, tree_flatten, tree_unflatten

DTYPES = ("float32", "bfloat16", "float16", "int32", "int64", "bool")
"""Dtypes of the samples."""

EXTRA_ENTRIES = frozenset(
    f"nn.functional.{name}"
    for name in (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d batch_norm celu conv1d conv2d "
        "conv3d conv_transpose1d conv_transpose2d conv_transpose3d elu embedding embedding_bag "
        "group_norm grid_sample hardswish interpolate layer_norm linear log_softmax max_pool2d "
        "max_pool3d pad pixel_shuffle rms_norm scaled_dot_product_attention silu softmin"
    ).split()
) | {"cdist", "index_put", "log_softmax", "masked_fill", "softmax", "stack", "tril", "unbind"}
"""Entries with other names that decompose to operators of the core set."""

EXCLUDED = {
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
"""Entries of the core set that are excluded, and why."""


REFUSALS = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)
"""Exceptions that torch raises for inputs it does not support."""


class Sample(torch.nn.Module):
    """A module that calls an operator with the non-tensor arguments of a sample.

    Args:
        op: the operator.
        spec: tree of the arguments.
        leaves: the leaves of the tree, with ``_INPUT`` in place of tensors.
        strided: whether inputs are given transposed and transposed back, so that the operator's
            inputs are not contiguous.
    """

    def __init__(self, op: Any, spec: TreeSpec, leaves: list[Any], strided: bool) -> None:
        super().__init__()
        self.op, self.spec, self.leaves, self.strided = op, spec, leaves, strided

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if leaf is _INPUT else leaf for leaf in self.leaves]
        if self.strided:
            leaves = [_transpose(leaf) for leaf in leaves]
        args, kwargs = tree_unflatten(leaves, self.spec)
        made = self.op(*args, **kwargs)
        # Programs do not support torch's named tuples as outputs.
        return tuple(made) if isinstance(made, tuple | list) else made


class _Input:
    """Placeholder of a tensor; a deep copy is the same object."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Input:
        return self


_INPUT = _Input()


def _transpose(item: Any) -> Any:
    return item.mT if isinstance(item, torch.Tensor) and item.dim() > 1 else item


@dataclass(frozen=True)
class Pick:
    """One sample of an operator.

    Attributes:
        entry: name of the database's entry, with its variant behind a slash.
        dtype: name of the samples' dtype.
        number: number of the sample among the samples of the dtype.
        strided: whether its tensors are not contiguous.
    """

    entry: str
    dtype: str
    number: int
    strided: bool

    def build(self) -> tuple[torch.nn.Module, Inputs]:
        """Make the module and its inputs, drawn from torch's global generator.

        Raises:
            LookupError: the installed torch has no such sample.
        """
        info = entries().get(self.entry)
        sample = None
        if info:
            # Close torch's generators here: the garbage collector would end them at any time.
            with contextlib.closing(samples(info, self.dtype)) as found:
                sample = next(itertools.islice(found, self.number, None), None)
        if sample is None:
            raise LookupError(
                f"torch {torch.__version__} has no sample {self.number} of {self.entry} in "
                f"{self.dtype}; python -m suites.opinfo.choose writes samples.json anew"
            )
        return program(info, sample, self.strided)


def program(info: Any, sample: Any, strided: bool) -> tuple[torch.nn.Module, Inputs]:
    """Make a module and its inputs of a SampleInput."""
    leaves, spec = tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
    is_input = [isinstance(leaf, torch.Tensor) for leaf in leaves]
    tensors = [leaf.detach() for leaf, given in zip(leaves, is_input, strict=True) if given]
    rest = [_INPUT if given else leaf for leaf, given in zip(leaves, is_input, strict=True)]
    if strided:
        tensors = [_transpose(tensor) for tensor in tensors]
    # Not contiguous(), which keeps any stride of a dimension of size 1.
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
        wanted = info.aten_name in core or info.name in EXTRA_ENTRIES
        if wanted and info.name not in EXCLUDED and name not in EXCLUDED:
            found[name] = info
    return found


def core_operators() -> frozenset[str]:
    """Names of the operators that torch tags as core."""
    return frozenset(
        operator._schema.name.removeprefix("aten::")
        for operator in list_operators("aten")
        if torch.Tag.core in operator.tags
    )


def samples(info: Any, dtype: str) -> Generator[Any]:
    """Samples of an entry for a dtype, in its order; none if it does not support the dtype."""
    wanted = getattr(torch, dtype)
    if info.supports_dtype(wanted, "cpu"):
        # sample_inputs would seed each draw, and keep the generator in a reference cycle.
        yield from info.sample_inputs_func(info, "cpu", wanted, False)
