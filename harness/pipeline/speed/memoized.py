"""Avoid recomputing results of torch and exir that do not depend on the program.

The largest are overrides of composite operators (36,000 kernels, registered and removed six times a
program) and the list of composite operators.

Assumes that the results depend only on the cache key: the overrides and their operators' kernels,
the number of registered operators and loaded modules, or the arguments. Verified by digests of the
code that computes them and of the caches that are exchanged here (``originals``).
"""

from __future__ import annotations

import functools
import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.export.decomp_utils
import torch.export.exported_program
from executorch.exir import tensor as exir_tensor
from executorch.exir._serialize import _dataclass
from executorch.exir.program import _program
from torch._decomp import decompositions_for_rng
from torch._export import utils as export_utils
from torch._ops import OpOverload
from torch._subclasses import fake_impls
from torch.export import ExportedProgram
from torch.fx import graph as fx_graph
from torch.fx.experimental import proxy_tensor
from torch.fx.traceback import NodeSource

from harness.vendors.replacements import SPEED, AttributeReplacer

_replacer = AttributeReplacer(f"{SPEED}memoized")
Overrides = dict[Any, Callable[..., Any]]


class CompositeOverrides(Overrides):
    """A set of overrides that does not change, with its cache key."""

    def __init__(self, overrides: Overrides) -> None:
        super().__init__(overrides)
        self.key = _key(overrides)


def _key(overrides: Overrides) -> frozenset[Any]:
    return frozenset((op, normalize_override(function)) for op, function in overrides.items())


@dataclass(frozen=True)
class _Kernels:
    """Python kernels of an operator before and during an override, and its fake rule."""

    before: dict[Any, Any]
    inside: dict[Any, Any]
    fake: Any


class _CachedOverrides:
    """Replaces torch.export's override of composite operators.

    The first time, upstream's code registers a set of overrides, and the kernel tables are cached.
    After that, the operators' kernel tables are exchanged for the cached ones.
    """

    def __init__(self, original: Callable[[Overrides], AbstractContextManager[None]]) -> None:
        self._original = original
        self._kept: dict[Any, list[tuple[Any, _Kernels]]] = {}

    @contextmanager
    def __call__(self, overrides: Overrides) -> Iterator[None]:
        key = overrides.key if isinstance(overrides, CompositeOverrides) else _key(overrides)
        kept, rules = self._kept.get(key), fake_impls.op_implementations_dict
        if kept is None or any(op.py_kernels != kernels.before for op, kernels in kept):
            before = {op: op.py_kernels.copy() for op in overrides}
            with self._original(overrides):
                self._kept[key] = [
                    (op, _Kernels(before[op], op.py_kernels.copy(), rules.get(op)))
                    for op in overrides
                ]
                try:
                    yield
                finally:
                    _record_called(overrides)
            return
        for op, kernels in kept:
            _exchange(op, kernels.inside)
            if kernels.fake is not None:
                rules.setdefault(op, kernels.fake)
        try:
            yield
        finally:
            _record_called(op for op, _ in kept)
            for op, kernels in kept:
                _exchange(op, kernels.before)
                if kernels.fake is not None:
                    rules.pop(op, None)


_recordings: list[set[Any]] = []


def can_record_operators() -> bool:
    """Return whether :func:`record_decomposed_operators` works: overrides are cached."""
    return (
        type(torch.export.exported_program._override_composite_implicit_decomp) is _CachedOverrides
    )


@contextmanager
def record_decomposed_operators() -> Iterator[set[Any]]:
    """Collect the operators that a decomposition looks up in its table, within a block.

    Composite operators are overridden by Python kernels, whose dispatch cache is empty at first:
    an operator with a cache entry was called. The tracer looks up the other operators. Both may
    also be decomposed by name.
    """
    met: set[Any] = set()

    def decompose(op: Any, *args: Any, **kwargs: Any) -> Any:
        met.add(op)
        return _decompose(op, *args, **kwargs)

    def look_up(mode: Any, op: Any, *args: Any) -> Any:
        met.add(op)
        return _look_up(mode, op, *args)

    _recordings.append(met)
    with (
        _replacer.replace_within(OpOverload, "decompose", decompose),
        _replacer.replace_within(proxy_tensor, "maybe_handle_decomp", look_up),
    ):
        try:
            yield met
        finally:
            _recordings.remove(met)


def _record_called(overridden: Iterable[Any]) -> None:
    """Record the operators that were called since they were overridden."""
    if _recordings:
        called = {op for op in overridden if op._dispatch_cache}
        for met in _recordings:
            met |= called


_decompose, _look_up = OpOverload.decompose, proxy_tensor.maybe_handle_decomp


def _exchange(op: Any, kernels: dict[Any, Any]) -> None:
    op.py_kernels.clear()
    op.py_kernels.update(kernels)
    op._dispatch_cache.clear()


def normalize_override(function: Callable[..., Any] | None) -> Any:
    """Return one value for all of upstream's "decompose this" functions, which are equivalent."""
    inner = getattr(function, "func", None)
    if inner is not None and inner.__name__ == "_special_op_to_decompose_cia":
        return inner.__name__
    return function


class _CachedCompositeOperators:
    """Lists composite operators, and caches the list until an operator is registered."""

    def __init__(self, collect: Callable[[], Any]) -> None:
        self._collect = collect
        self._found: Any = None
        self._registered: tuple[int, int] | None = None
        self._loaded: tuple[int, ...] | None = None

    def __call__(self) -> Any:
        # A list of all operators takes 6 ms. A registration increases one of these numbers.
        loaded = len(sys.modules), len(torch.ops.loaded_libraries), len(torch.library._defs)
        if loaded != self._loaded and self._registered != _registrations():
            self._found = self._collect_at_once()
            self._registered = _registrations()  # collecting itself materialises operators
        self._loaded = loaded
        return self._found

    def _collect_at_once(self) -> Any:
        """Collect as upstream, but materialize C++ operators once instead of 40 times."""
        export_utils._materialize_cpp_cia_ops()
        with _replacer.replace_within(export_utils, "_materialize_cpp_cia_ops", lambda: None):
            return self._collect()


def _registrations() -> tuple[int, int]:
    """Return numbers that change when an operator or a namespace is registered."""
    return len(torch._C._dispatch_get_all_op_names()), len(torch.ops._dir)


_NOTHING_YET = torch.tensor(())


def _reset_philox(state: Any) -> None:
    """Replaces ``PhiloxState.reset``, which creates six empty tensors a program."""
    state.seed = state.base_offset = _NOTHING_YET
    state.relative_offset = 0
    state.offset_advanced_at_least_once = False


class CallSpec(NamedTuple):
    """Result of ``ExportedProgram.call_spec``; upstream creates a class for each access."""

    in_spec: Any
    out_spec: Any


def _call_spec(program: ExportedProgram) -> CallSpec:
    """Replaces ``ExportedProgram.call_spec``."""
    calls = program.module_call_graph
    if not calls:
        return CallSpec(None, None)
    if calls[0].fqn or (signature := calls[0].signature) is None:
        spec: CallSpec = _upstream_call_spec(program)  # raises upstream's error
        return spec
    return CallSpec(signature.in_spec, signature.out_spec)


_property: Any = vars(ExportedProgram)["call_spec"]
_upstream_call_spec = _property.fget
_order_of = exir_tensor.dim_order_from_stride


def _dim_order_from_stride(stride: Any) -> tuple[Any, ...]:
    """Replaces exir's, which creates a class for each tensor to compare symbols."""
    if any(type(one) is not int or one <= 0 for one in stride):
        order: tuple[Any, ...] = _order_of(stride)
        return order
    return tuple(sorted(range(len(stride)), key=stride.__getitem__, reverse=True))


_select_preserved = _program._remove_invalid_ops_for_not_decompose
_preserved: dict[tuple[Any, ...], list[Any]] = {}


def _select_preserved_once(operators: list[Any]) -> list[Any]:
    """Replaces exir's check of a partitioner's preserved operators, which parses each operator's
    schema twice a program."""
    key = tuple(operators)
    if key not in _preserved:
        _preserved[key] = _select_preserved(operators)
    return list(_preserved[key])


def install(replace: AttributeReplacer) -> None:
    """Cache these results from now on."""
    override = torch.export.exported_program._override_composite_implicit_decomp
    replace(torch.export.exported_program, override.__name__, _CachedOverrides(override))
    collect_once = _CachedCompositeOperators(export_utils._collect_all_valid_cia_ops)
    for module in (export_utils, torch.export.exported_program, torch.export.decomp_utils):
        replace(module, "_collect_all_valid_cia_ops", collect_once)
    replace(decompositions_for_rng.PhiloxState, "reset", _reset_philox)
    # Called for each field of each serialized instance; it compiles annotations.
    replace(_dataclass, "get_type_hints", functools.cache(typing.get_type_hints))
    replace(ExportedProgram, "call_spec", _property.getter(_call_spec))
    replace.replace_everywhere(_order_of, _dim_order_from_stride)
    # Node names derive from a few hundred operator names.
    replace(fx_graph, "_snake_case", functools.lru_cache(4096)(fx_graph._snake_case))
    replace(_program, _select_preserved.__name__, _select_preserved_once)
    # Copies of a node share its provenance, which no code modifies.
    replace(NodeSource, "__deepcopy__", lambda self, memo: self)
