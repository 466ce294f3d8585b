"""What operators make of fake tensors when a graph is walked, kept as long as a program is lowered.

A pass walks a graph by calling all of its operators on fake tensors, and lowering to TOSA takes a
hundred passes: nearly all calls are ones that an earlier pass made, with tensors of the same kind.
The fake mode keeps results itself, but not those of operators outside of ATen, and it asks much
before it does. What came of a call is kept here with the fake mode that it was made in, and ends
with it. An operator of the edge dialect calls one of ATen, so what came of the one came of the
other.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Interpreter, Node
from torch.fx.immutable_collections import immutable_list
from torch.utils._pytree import tree_leaves

_FAKE = torch._C._TorchDispatchModeKey.FAKE
_IS_INCLUDED = torch._C._dispatch_tls_is_dispatch_key_included
_UNKEPT_TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
PLAIN = frozenset(
    {
        bool,
        int,
        float,
        str,
        type(None),
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    }
)
"""Types of arguments that are what they are: no tensor, and nothing inside."""


class Kind(NamedTuple):
    """All that tells a fake tensor from others, where there is no more to it."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    storage_bytes: int


class _Kinds(NamedTuple):
    """The kinds of several results."""

    holder: type[Any]
    kinds: list[Kind]


class NotKept(Exception):
    """More decides about a call, or comes of it, than kinds say."""


Call = tuple[Any, ...]
"""What tells a call, or a value in it, from others."""
_Results = dict[Call, Kind | _Kinds | None]
_upstream = EdgeOpOverload.__call__
_interpreted = Interpreter.call_function
_kept: weakref.WeakKeyDictionary[FakeTensorMode, _Results] = weakref.WeakKeyDictionary()
_contexts: dict[OpOverload, Callable[[], object] | None] = {}


def _call(overload: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands for ``EdgeOpOverload.__call__``."""
    return _result(functools.partial(_upstream, overload), overload._op, args, kwargs)


def _call_function(interpreter: Any, target: Any, args: Any, kwargs: Any) -> Any:
    """Stands for ``torch.fx.Interpreter.call_function``."""
    if type(target) is not OpOverload:
        return _interpreted(interpreter, target, args, kwargs)
    return _result(target, target, args, kwargs)


def _result(function: Callable[..., Any], op: OpOverload, args: Any, kwargs: Any) -> Any:
    """What a function that calls an operator returns."""
    mode = mode_alone()
    if mode is None:
        return function(*args, **kwargs)
    try:
        key = op, context_of(op), _surroundings(), key_of(args, mode), key_of(kwargs.items(), mode)
    except NotKept:
        return function(*args, **kwargs)
    kept = _kept.get(mode)
    if kept is None:
        kept = _kept[mode] = {}
    kind = kept.get(key)
    if kind is not None:
        return _make(kind, mode)
    result = function(*args, **kwargs)
    if key not in kept:
        kept[key] = _kind_of_result(result, (args, kwargs), mode)
    return result


def _surroundings() -> object:
    """What decides about results of every operator, and is neither an argument nor a mode."""
    return torch.get_default_dtype(), _IS_INCLUDED(torch._C.DispatchKey.PythonDispatcher)


def mode_alone() -> FakeTensorMode | None:
    """The fake mode that makes what is called, if nothing else hears of calls or changes what they
    make."""
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


def context_of(op: OpOverload) -> object:
    """What decides about the results of an operator besides its arguments.

    Raises:
        NotKept: nobody knows.
    """
    if op not in _contexts:
        values = (*op._schema.arguments, *op._schema.returns)
        follows = not _UNKEPT_TAGS.intersection(op.tags) and not any(
            value.alias_info for value in values
        )
        _contexts[op] = _NAMESPACES.get(op.namespace) if follows else None
    context = _contexts[op]
    if context is None:
        raise NotKept
    return context()


def _tosa_specification() -> object:
    """The variant of TOSA that a program is being lowered to; its operators refuse other dtypes."""
    from executorch.backends.arm.tosa.specification import TosaLoweringContext

    # Two that differ in their extensions alone compare equal, and print differently.
    return repr(TosaLoweringContext.tosa_spec_var.get(None))


def _nothing() -> None:
    pass


# Fake rules of other namespaces may hold state of their own.
_NAMESPACES = {
    "aten": _nothing,
    "dim_order_ops": _nothing,
    "quantized_decomposed": _nothing,
    "tosa": _tosa_specification,
}


def key_of(
    values: Iterable[Any], mode: FakeTensorMode, given: Mapping[Node, Call] = MappingProxyType({})
) -> Call:
    """What tells arguments from others: kinds of tensors, and other values with their types, as 1
    and 1.0 make different results; in a graph, what is given of the nodes that make them.

    Raises:
        NotKept: more decides about them.
        KeyError: nothing is given of a node.
    """
    parts: list[Any] = []
    for value in values:
        its = type(value)
        if its is FakeTensor:
            parts.append(kind_of(value, mode))
        elif its in PLAIN:
            parts.append((its, value))
        elif its is tuple or its is list or its is immutable_list:
            parts.append((its, key_of(value, mode, given)))
        elif its is Node:
            parts.append((its, given[value]))
        else:
            raise NotKept
    return tuple(parts)


def kind_of(tensor: FakeTensor, mode: FakeTensorMode) -> Kind:
    """What tells a tensor from others of a mode.

    Args:
        tensor: a fake one.
        mode: that it should be of.

    Raises:
        NotKept: it is of another mode, has symbols for sizes, or there is more to it.
    """
    if (
        tensor.fake_mode is not mode
        or tensor._has_symbolic_sizes_strides
        or tensor.layout is not torch.strided
        or tensor.constant is not None
        or tensor.requires_grad
        or tensor.is_quantized
        or tensor.storage_offset() != 0
        or tensor.is_conj()
        or tensor.is_neg()
        or tensor.is_inference()
    ):
        raise NotKept
    storage = tensor.untyped_storage().nbytes()
    if type(storage) is not int:  # a symbol's, though sizes and strides are known
        raise NotKept
    return Kind(tensor.shape, tensor.stride(), tensor.dtype, tensor.device, storage)


def _make(kind: Kind | _Kinds, mode: FakeTensorMode) -> Any:
    """New fake tensors, made as the mode makes those that it keeps itself."""
    if isinstance(kind, _Kinds):
        return kind.holder(_make(one, mode) for one in kind.kinds)
    # The mode's own guard also says that a kernel runs, which none does.
    with torch._C._DisableTorchDispatch():
        empty = torch.empty_strided(kind.shape, kind.stride, dtype=kind.dtype, device="meta")
    return FakeTensor(mode, empty, kind.device)


def _kind_of_result(result: Any, arguments: Any, mode: FakeTensorMode) -> Kind | _Kinds | None:
    """What is enough to make a result again; None where nothing is."""
    several = type(result) is tuple or type(result) is list
    made = result if several else [result]
    if any(type(one) is not FakeTensor for one in made):
        return None
    given = {_memory(leaf) for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)}
    if len(given | {_memory(one) for one in made}) < len(given) + len(made):
        return None
    try:
        kinds = [kind_of(one, mode) for one in made]
    except NotKept:
        return None
    if any(kind_of(_make(kind, mode), mode) != kind for kind in kinds):
        return None
    return _Kinds(type(result), kinds) if several else kinds[0]


def _memory(tensor: torch.Tensor) -> int:
    """What tensors that share memory have in common."""
    pointer: int = tensor.untyped_storage()._cdata
    return pointer


def install() -> None:
    """Keep what operators make of fake tensors from now on, where a graph is walked."""
    EdgeOpOverload.__call__ = _call
    walks: Any = Interpreter
    walks.call_function = _call_function
