"""CPU tensors that report an MPS device, which this host does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from harness.vendors.torch import (
    HigherOrderOperator,
    OpOverload,
    _get_dispatch_mode,
    _TorchDispatchModeKey,
    tree_map_only,
)

MPS = torch.device("mps:0")

_OPERATORS = (OpOverload, HigherOrderOperator)


class HostTensor(torch.Tensor):
    """A CPU tensor that reports the device "mps:0".

    Inductor reads weights while it compiles: it inlines scalars and short vectors, folds uniform
    values and looks for weights that share memory. A fake tensor has no values.
    """

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The reported device."""
        return MPS

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Stay on the CPU when moved to "mps"; become a fake tensor in fake mode."""
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.to and _moves_to_mps(args, kwargs):
            return args[0]
        mode = _fake_mode()
        if mode is not None and isinstance(func, _OPERATORS):
            args, kwargs = to_fake(mode, (args, kwargs))
            return func(*args, **kwargs)
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]


def to_fake(mode: Any, arguments: Any) -> Any:
    """Replace host tensors in a tree of arguments by fake tensors.

    Fake mode converts real tensors itself, but refuses subclasses.

    Args:
        mode: the fake mode.
        arguments: any tree.
    """
    return tree_map_only(
        HostTensor, lambda tensor: mode.from_tensor(tensor, static_shapes=True), arguments
    )


def fake_dispatch(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``FakeTensorMode.dispatch`` so that it accepts host tensors among its arguments.

    ``__torch_function__`` alone is not enough: in a ``Tensor?[]`` argument torch looks for it in
    the first element only, and that is ``None`` for ``x[:, index]``.
    """

    def dispatch_faked(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = to_fake(mode, (args, kwargs or {}))
        return dispatch(mode, func, types, args, kwargs)

    return dispatch_faked


def make_tensor(tensor: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Wrap ``torch.tensor`` so that a constant for "mps" becomes a host tensor.

    Inductor calls ``torch.tensor`` for a number that it passes to a kernel of the runtime.
    """

    def make(data: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        device = kwargs.get("device")
        if device is None or torch.device(device).type != MPS.type or _fake_mode() is not None:
            return tensor(data, *args, **kwargs)
        return to_host(tensor(data, *args, **{**kwargs, "device": "cpu"}))

    return make


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a CPU tensor to a host tensor with the layout of a tensor moved to the device.

    Args:
        tensor: a tensor or parameter. Tensors that share memory are copied separately, as when a
            program is moved.

    Returns:
        The same kind, with the same ``requires_grad``.
    """
    copied = tensor.detach().clone().as_subclass(HostTensor)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copied, tensor.requires_grad)
    return copied


def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain CPU tensor that shares the host tensor's memory."""
    return tensor.detach().as_subclass(torch.Tensor)


def _fake_mode() -> Any:
    return _get_dispatch_mode(_TorchDispatchModeKey.FAKE)


def _moves_to_mps(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    place = kwargs.get("device", args[1] if len(args) > 1 else None)
    only_place = len(args) + len(kwargs) == 2
    return only_place and isinstance(place, (str, torch.device)) and torch.device(place) == MPS
