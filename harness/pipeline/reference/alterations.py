"""Detect vendor calls that change the caller's tensors.

A vendor's call (export, prepare, convert, lower, ...) may rewrite its graph. It must not write to
the tensors in the graph: that changes the model and its reference. Writes are detected by a
checksum of the bytes, because a tensor's version misses writes to ``.data`` and writes outside of
torch's dispatcher. Execution needs no check: a runtime gets copies of the inputs
(``Program.arrange``) and nothing of the module.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from harness.errors import AlteredByCall
from harness.model.case import Built
from harness.model.copies import iterate_plain_parts
from harness.pipeline.reference.unchanged import view_bytes
from harness.vendors.torch import tree_leaves

State = dict[str, Any]
"""By readable name: a tensor's dtype, shape, strides and checksum, or the value of a flag."""


class AlterationCheck:
    """Compares tensors and flags before and after each vendor call.

    It compares parameters, buffers and ``training`` flags of the module, its inputs, and the
    tensors of programs made from it.

    Args:
        built: the module and its inputs.
    """

    def __init__(self, built: Built) -> None:
        self._built = built
        self._tensors: dict[str, Mapping[str, Any]] = {}
        self._before: State = {}
        self._sums: dict[Any, int] = {}

    def track(self, owner: str, tensors: Mapping[str, Any]) -> None:
        """Compare these tensors too from the next call on; they replace earlier ones of the owner.

        Args:
            owner: readable name of their owner, such as ``the exported program``.
            tensors: tensors by name.
        """
        if owner in self._tensors:
            self._sums = {}  # the memory of earlier tensors may be reused
            kept = (name for name in self._before if owner not in name)
            self._before = {name: self._before[name] for name in kept}
        self._tensors[owner] = dict(tensors)

    def record_before_call(self) -> None:
        """Take the checksums of new tensors; all others were checked after the last call."""
        new = (
            (name, value) for name, value in self._list_tracked_values() if name not in self._before
        )
        self._before |= _state(new, self._sums)

    def check_after_call(self, call: str) -> None:
        """Check that a call changed nothing.

        Args:
            call: name of the call.

        Raises:
            AlteredByCall: the call changed tensors or flags.
        """
        before, self._sums = self._before, {}
        self._before = now = _state(self._list_tracked_values(), self._sums)
        names = [*before, *(name for name in now if name not in before)]
        changed = [name for name in names if before.get(name) != now.get(name)]
        # A program shares tensors with the module; report them by the module's names only.
        own = [name for name in changed if not name.endswith(tuple(self._tensors))]
        if changed:
            raise AlteredByCall(call, own or changed)

    def _list_tracked_values(self) -> Iterator[tuple[str, Any]]:
        module = self._built.module
        for path, part in module.named_modules():
            yield f"training of {path or 'the module'}", part.training
        tensors = {
            "parameter": module.named_parameters(remove_duplicate=False),
            "buffer": module.named_buffers(remove_duplicate=False),
        }
        for kind, named in tensors.items():
            for name, tensor in named:
                yield from _parts(f"{kind} {name}", tensor)
        for number, call in enumerate(self._built.calls):
            for position, leaf in enumerate(tree_leaves(call)):
                if isinstance(leaf, torch.Tensor):
                    yield from _parts(f"input {position} of call {number}", leaf)
        for owner, held in self._tensors.items():
            for name, tensor in held.items():
                if isinstance(tensor, torch.Tensor):
                    yield from _parts(f"{name} of {owner}", tensor)


def _state(values: Iterable[tuple[str, Any]], sums: dict[Any, int]) -> State:
    return {
        name: _describe(value, sums) if isinstance(value, torch.Tensor) else value
        for name, value in values
    }


def _parts(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    for number, part in enumerate(iterate_plain_parts(tensor)):
        yield name if part is tensor else f"part {number} of {name}", part


def _describe(tensor: torch.Tensor, sums: dict[Any, int]) -> Any:
    """A tensor's dtype, shape, strides and checksum; its version if its bytes cannot be read.

    Args:
        tensor: the tensor.
        sums: checksums of this round, so that shared tensors are read only once.
    """
    data = view_bytes(tensor)
    if data is None:
        version = None if tensor.is_inference() else tensor._version
        return tensor.dtype, tuple(tensor.shape), version
    layout = tensor.dtype, tuple(tensor.shape), tensor.stride()
    key = tensor.data_ptr(), *layout
    if key not in sums:
        sums[key] = zlib.crc32(data)
    return *layout, sums[key]
