"""Copy modules, including modules that :func:`copy.deepcopy` refuses to copy.

Tensor subclasses often refuse (an inner tensor has a gradient history, or a class has no
``clone``), and so does a weight that is computed from others. Their parts are copied instead. Parts
that cannot be copied at all are shared with the original.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import CaseError, describe

if TYPE_CHECKING:
    import torch

Memo = dict[int, Any]
"""Copies by the identity of their originals, as in :func:`copy.deepcopy`."""


@dataclass(frozen=True)
class SharedTensor:
    """A tensor that a copy shares with its original, and its state when the copy was made."""

    path: str
    tensor: torch.Tensor
    version: int | None

    def check(self) -> None:
        """Check that the tensor has not been written to.

        Raises:
            CaseError: it has.
        """
        if _version(self.tensor) != self.version:
            raise CaseError(
                f"{self.path} ({type(self.tensor).__name__}) cannot be copied, so it is shared "
                "with the module that was given, and it has been written to since; make the "
                "module in the build of a Case"
            )


def copy_module(module: torch.nn.Module) -> tuple[torch.nn.Module, list[SharedTensor]]:
    """A copy of a module, and the tensors that it shares with the original.

    An object that is no tensor and cannot be copied (a lock, packed weights of another library) is
    shared, too.
    """
    memo: Memo = {}
    shared = []
    for path, tensor in _tensors(module):
        if id(tensor) in memo or _is_plain(tensor) or is_lazy(tensor):
            continue
        try:
            memo[id(tensor)] = copy_tensor(tensor)
        except Exception:  # a class may raise anything for a missing attribute
            memo[id(tensor)] = tensor
            shared.append(SharedTensor(path, tensor, _version(tensor)))
    return _copy(module, memo), shared


def is_lazy(tensor: torch.Tensor) -> bool:
    """Return whether it is a parameter whose shape follows from the first call."""
    from torch.nn.parameter import is_lazy

    return bool(is_lazy(tensor))


def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of the same class with its own storage, without gradient history."""
    import torch

    from harness.vendors.torch import is_traceable_wrapper_subclass

    if not is_traceable_wrapper_subclass(tensor):
        made = tensor.detach().clone()
    else:
        names, context = tensor.__tensor_flatten__()
        inner = {name: copy_tensor(getattr(tensor, name)) for name in names}
        made = type(tensor).__tensor_unflatten__(inner, context, tensor.size(), tensor.stride())
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return torch.nn.Parameter(made, tensor.requires_grad) if is_parameter else made


def find_wrapper_tensors(module: torch.nn.Module) -> list[torch.Tensor]:
    """Return the parameters and buffers that wrap other tensors, as quantized weights do."""
    from harness.vendors.torch import is_traceable_wrapper_subclass

    return [tensor for *_, tensor in _state(module) if is_traceable_wrapper_subclass(tensor)]


def iterate_plain_state(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Return parameters and buffers; a wrapper is replaced by the tensors that it wraps."""
    for *_, tensor in _state(module):
        yield from iterate_plain_parts(tensor)


def iterate_plain_parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Return a tensor; a wrapper is replaced by the tensors that it wraps."""
    from harness.vendors.torch import is_traceable_wrapper_subclass

    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from iterate_plain_parts(getattr(tensor, name))


@contextmanager
def keep_values(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Give tensors the values back that they had before the block."""
    import torch

    before = [(tensor, tensor.detach().clone()) for tensor in tensors]
    try:
        yield
    finally:
        for tensor, value in before:
            # An expanded tensor cannot be written, neither by the block nor here.
            if not torch.equal(tensor, value):
                tensor.detach().copy_(value)


def convert_state(
    module: torch.nn.Module, convert: Callable[[torch.Tensor], torch.Tensor]
) -> torch.nn.Module:
    """Convert all parameters and buffers of a module in place, as ``Module._apply`` does; wrappers
    are replaced, because many refuse to be changed."""
    from torch.nn import Parameter

    from harness.vendors.torch import is_traceable_wrapper_subclass

    held = [item for item in _state(module) if is_traceable_wrapper_subclass(item[2])]
    for store, name, _ in held:
        store[name] = None
    module._apply(convert)  # type: ignore[no-untyped-call]  # torch's is untyped
    done: dict[int, torch.Tensor] = {}
    for store, name, tensor in held:
        if id(tensor) not in done:
            made = convert(tensor)
            if isinstance(tensor, Parameter) and made is not tensor:
                made = Parameter(made.detach(), tensor.requires_grad)
            done[id(tensor)] = made
        store[name] = done[id(tensor)]
    return module


def _state(module: torch.nn.Module) -> Iterator[tuple[dict[str, Any], str, torch.Tensor]]:
    """Return parameters and buffers, each with the dict that contains it and its name there."""
    for part in module.modules():
        for store in (part._parameters, part._buffers):
            for name, tensor in list(store.items()):
                if tensor is not None:
                    yield store, name, tensor


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the tensors in any attribute of a module's parts, and their paths."""
    import torch

    from harness.vendors.torch import tree_leaves

    for path, part in module.named_modules():
        held = {**vars(part), **part._parameters, **part._buffers}
        for name in ("_parameters", "_buffers", "_modules"):
            held.pop(name, None)
        for name, value in held.items():
            for leaf in tree_leaves(value):
                if isinstance(leaf, torch.Tensor):
                    yield f"{path}.{name}".lstrip("."), leaf


def _version(tensor: torch.Tensor) -> int | None:
    """Return how often the tensor was written to; None if torch does not count."""
    return None if tensor.is_inference() else tensor._version


def _is_plain(tensor: torch.Tensor) -> bool:
    """Return whether :func:`copy.deepcopy` copies it."""
    import torch

    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.is_leaf


def _copy(value: Any, memo: Memo) -> Any:
    """Return a deep copy; if refused, a copy of each part; without parts, the original."""
    import torch

    attempt = dict(memo)
    try:
        made = copy.deepcopy(value, attempt)
    except Exception:  # a class may refuse with any exception
        if isinstance(value, torch.nn.Module):
            return _in_parts(value, memo)
        memo[id(value)] = value
        return value
    memo.update(attempt)
    return made


def _in_parts(module: torch.nn.Module, memo: Memo) -> torch.nn.Module:
    made = module.__class__.__new__(module.__class__)
    memo[id(module)] = made
    for name, value in vars(module).items():
        if name in ("_parameters", "_buffers", "_modules"):
            made.__dict__[name] = {key: _copy(item, memo) for key, item in value.items()}
        else:
            made.__dict__[name] = _copy(value, memo)
    return made


def prepare_for_inference(module: torch.nn.Module) -> torch.nn.Module:
    """Put the module into eval mode without gradients.

    A module from ``torch.export`` has only one mode and refuses to change it; that is no error.

    Raises:
        CaseError: another module refuses, or it cannot be exported.
    """
    import torch

    if isinstance(module, torch.jit.ScriptModule):
        raise CaseError("the module is TorchScript, which torch.export does not take")
    if lazy := [name for name, item in module.named_parameters() if is_lazy(item)]:
        raise CaseError(f"the module has no values for {', '.join(lazy)} yet; call it once")
    try:
        module.eval()
    except Exception as error:
        if "eval" not in vars(module):  # ExportedProgram.module() puts a refusing eval() there
            raise CaseError(f"the module has no eval mode: {describe(error)}") from error
    return module.requires_grad_(False)


def normalize_inputs(inputs: Any) -> Any:
    """Return inputs as an application passes them: without gradients or overlapping elements,
    because a program knows a dimension order and no strides."""
    import torch

    from harness.vendors.torch import _debug_has_internal_overlap, tree_map

    def normalize(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        item = item.detach()
        overlapping = _debug_has_internal_overlap(item) == 1
        return item.contiguous() if overlapping else item

    return tree_map(normalize, inputs)
