"""Avoid calling an operator again on fake tensors of the same kinds.

A pass calls all operators of a graph on fake tensors, and lowering to TOSA takes a hundred passes:
almost all calls repeat earlier ones. Fake modes cache only operators of ATen, after many checks.
This cache covers all programs and modes with the same settings. An operator of the edge dialect
calls one of ATen and shares its result.

Assumes that a result depends only on the key: operator, kinds and values of arguments, settings of
the mode, default dtype and device. Verified by digests of the mode's own cache and of the code that
creates fake tensors (``originals``); each cached result is recreated once and compared.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConfig, FakeTensorMode
from torch.fx import Interpreter
from torch.fx.immutable_collections import immutable_dict
from torch.utils._pytree import tree_leaves

from harness.pipeline.speed.passes.fake_keys import (
    CallKey,
    NotCacheable,
    TensorKind,
    build_key,
    get_kind,
    get_operator_context,
)
from harness.vendors.replacements import AttributeReplacer

_FAKE = torch._C._TorchDispatchModeKey.FAKE
_IS_INCLUDED = torch._C._dispatch_tls_is_dispatch_key_included


class _ResultKinds(NamedTuple):
    """The kinds of a tuple or list of results."""

    holder: type[Any]
    kinds: list[TensorKind]


_MOST = 20_000
_results: dict[CallKey, TensorKind | _ResultKinds | None] = {}
# Attributes that all tensors of a mode and device share, except the mode itself.
_attributes: weakref.WeakKeyDictionary[FakeTensorMode, dict[torch.device, dict[str, Any]]] = (
    weakref.WeakKeyDictionary()
)
_NONE: immutable_dict[str, Any] = immutable_dict()
_upstream = EdgeOpOverload.__call__
_interpreted = Interpreter.call_function
_dispatched = FakeTensorMode.dispatch


def _call(overload: Any, *args: Any, **kwargs: Any) -> Any:
    """Replaces ``EdgeOpOverload.__call__``."""
    mode, function = get_sole_fake_mode(), functools.partial(_upstream, overload)
    if mode is None:
        return function(*args, **kwargs)
    return _result(mode, function, overload._op, args, kwargs)


def _call_function(interpreter: Any, target: Any, args: Any, kwargs: Any) -> Any:
    """Replaces ``torch.fx.Interpreter.call_function``."""
    if type(target) is OpOverload and (mode := get_sole_fake_mode()) is not None:
        return _result(mode, target, target, args, kwargs)
    return _interpreted(interpreter, target, args, kwargs)


def _dispatch(
    mode: FakeTensorMode, func: Any, types: Any, args: Any = (), kwargs: Any = _NONE
) -> Any:
    """Replaces ``FakeTensorMode.dispatch``, which runs after all other modes."""
    if (
        type(func) is not OpOverload
        or not mode.cache_enabled
        or mode.in_kernel_invocation
        or torch.is_inference_mode_enabled()
    ):
        return _dispatched(mode, func, types, args, kwargs)

    def function(*args: Any, **kwargs: Any) -> Any:
        return _dispatched(mode, func, types, args, kwargs)

    return _result(mode, function, func, args, kwargs or {})


def _result(
    mode: FakeTensorMode, function: Callable[..., Any], op: OpOverload, args: Any, kwargs: Any
) -> Any:
    """Return the result of a function that calls an operator, from the cache if possible."""
    key = _key(mode, op, args, kwargs)
    if key is None:
        return function(*args, **kwargs)
    kind = _results.get(key)
    if kind is not None:
        return create_fake_tensors(kind, mode)
    result = function(*args, **kwargs)
    if key not in _results:
        if len(_results) >= _MOST:
            _results.clear()
        _results[key] = _kind_of_result(result, (args, kwargs), mode)
    return result


def _key(mode: FakeTensorMode, op: OpOverload, args: Any, kwargs: Any) -> CallKey | None:
    try:
        given = build_key(args, mode), build_key(kwargs.items(), mode)
        return op, get_operator_context(op), _surroundings(mode), *given
    except NotCacheable:
        return None


def _surroundings(mode: FakeTensorMode) -> object:
    """Return the settings that results of all operators depend on, as in the mode's own key."""
    shapes = mode.shape_env
    return (
        torch.get_default_dtype(),
        torch._C._get_default_device(),
        _IS_INCLUDED(torch._C.DispatchKey.PythonDispatcher),
        shapes and shapes.settings,
        mode.allow_meta,
    )


def get_sole_fake_mode() -> FakeTensorMode | None:
    """Return the active fake mode if no other mode observes calls or changes their results."""
    mode: FakeTensorMode | None = torch._C._get_dispatch_mode(_FAKE)
    is_alone = (
        mode is not None
        and torch._C._len_torch_dispatch_stack() == 1
        and torch._C._len_torch_function_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch.is_inference_mode_enabled()
        and not torch._C._is_any_autocast_enabled()
    )
    return mode if is_alone else None


def create_fake_tensors(kind: TensorKind | _ResultKinds, mode: FakeTensorMode) -> Any:
    """Create fake tensors as a mode creates those of its own cache.

    Args:
        kind: kind of the results; their storages have no extra bytes.
        mode: mode of the results.
    """
    if isinstance(kind, _ResultKinds):
        return kind.holder(create_fake_tensors(one, mode) for one in kind.kinds)
    # The mode's own guard also marks a running kernel; none runs here.
    with torch._C._DisableTorchDispatch():
        empty = torch.empty_strided(kind.shape, kind.stride, dtype=kind.dtype, device="meta")
    known = _attributes.setdefault(mode, {})
    attributes = known.get(kind.device)
    if attributes is None or FakeTensorConfig.debug:
        made = FakeTensor(mode, empty, kind.device)
        known[kind.device] = {name: of for name, of in vars(made).items() if of is not mode}
        return made
    # Like the constructor, without its checks of attributes that are the same for all tensors.
    made = torch.Tensor._make_subclass(
        FakeTensor, empty, False, dispatch_device=True, device_for_backend_keys=kind.device
    )
    if mode._allow_unsafe_data_ptr_access:
        torch._C._set_warn_deprecated_on_mutable_data_ptr(made)
    else:
        torch._C._set_throw_on_mutable_data_ptr(made)
    vars(made).update(attributes, fake_mode=mode)
    made.__init__()  # type: ignore[misc]
    return made


def _kind_of_result(
    result: Any, arguments: Any, mode: FakeTensorMode
) -> TensorKind | _ResultKinds | None:
    """Return the kind of a result if it is sufficient to recreate it; None otherwise."""
    several = type(result) is tuple or type(result) is list
    made = result if several else [result]
    if any(type(one) is not FakeTensor for one in made):
        return None
    given = {_memory(leaf) for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)}
    if len(given | {_memory(one) for one in made}) < len(given) + len(made):
        return None
    try:
        kinds = [get_kind(one, mode) for one in made]
    except NotCacheable:
        return None
    if any(get_kind(create_fake_tensors(kind, mode), mode) != kind for kind in kinds):
        return None
    return _ResultKinds(type(result), kinds) if several else kinds[0]


def _memory(tensor: torch.Tensor) -> int:
    """Return an identity of the tensor's memory."""
    pointer: int = tensor.untyped_storage()._cdata
    return pointer


def install(replace: AttributeReplacer) -> None:
    """Cache results on fake tensors from now on."""
    replace(EdgeOpOverload, "__call__", _call)
    replace(Interpreter, "call_function", _call_function)
    replace(FakeTensorMode, "dispatch", _dispatch)
