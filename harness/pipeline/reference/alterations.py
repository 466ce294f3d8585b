"""Whether a vendor's call changed what belongs to its caller.

A vendor's call (export, prepare, convert, lower, ...) may rewrite the graph that it is given. The
tensors in it are the caller's: a call that writes to them changes the model, and the reference with
it. Writes are found by a checksum of the bytes. A tensor's version does not show all of them: not a
write to ``.data``, nor one past torch's dispatcher. A runtime is given copies of the inputs
(``Program.arrange``) and nothing of the module, so that running needs no such check.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from harness.errors import AlteredByCall
from harness.model.case import Built
from harness.model.copies import plain_parts
from harness.pipeline.reference.unchanged import bytes_of
from harness.vendors.torch import tree_leaves

State = dict[str, Any]
"""By a name for people: the checksum of a tensor with its dtype, shape and strides, or a flag."""


class Alterations:
    """What vendors' calls are given, held against what it was before each call.

    These are the parameters, buffers and ``training`` flags of the module, its inputs, and tensors
    of what was made of it.

    Args:
        built: the module and its inputs.
    """

    def __init__(self, built: Built) -> None:
        self._built = built
        self._tensors: dict[str, Mapping[str, Any]] = {}
        self._before: State = {}
        self._sums: dict[Any, int] = {}

    def hold(self, owner: str, tensors: Mapping[str, Any]) -> None:
        """Hold further tensors from the next call on, in place of those that the owner had.

        Args:
            owner: what has them, for people: ``the exported program``.
            tensors: by name.
        """
        if owner in self._tensors:
            self._sums = {}  # memory of what it had may be another tensor's by now
            kept = (name for name in self._before if owner not in name)
            self._before = {name: self._before[name] for name in kept}
        self._tensors[owner] = dict(tensors)

    def before_call(self) -> None:
        """Take the checksums of what is new; all else is as the last call left it."""
        new = ((name, value) for name, value in self._held() if name not in self._before)
        self._before |= _state(new, self._sums)

    def after_call(self, call: str) -> None:
        """See that a call left everything as it was.

        Args:
            call: its name.

        Raises:
            AlteredByCall: it did not.
        """
        before, self._sums = self._before, {}
        self._before = now = _state(self._held(), self._sums)
        names = [*before, *(name for name in now if name not in before)]
        changed = [name for name in names if before.get(name) != now.get(name)]
        # A program shares tensors with the module: then the module's names say it.
        own = [name for name in changed if not name.endswith(tuple(self._tensors))]
        if changed:
            raise AlteredByCall(call, own or changed)

    def _held(self) -> Iterator[tuple[str, Any]]:
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
        name: _described(value, sums) if isinstance(value, torch.Tensor) else value
        for name, value in values
    }


def _parts(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    for number, part in enumerate(plain_parts(tensor)):
        yield name if part is tensor else f"part {number} of {name}", part


def _described(tensor: torch.Tensor, sums: dict[Any, int]) -> Any:
    """A tensor's dtype, shape, strides and checksum; what has no bytes by its version.

    Args:
        tensor: it.
        sums: checksums of this round, so that shared tensors are read once.
    """
    data = bytes_of(tensor)
    if data is None:
        version = None if tensor.is_inference() else tensor._version
        return tensor.dtype, tuple(tensor.shape), version
    layout = tensor.dtype, tuple(tensor.shape), tensor.stride()
    key = tensor.data_ptr(), *layout
    if key not in sums:
        sums[key] = zlib.crc32(data)
    return *layout, sums[key]
