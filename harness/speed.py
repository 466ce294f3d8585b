"""Make repeated lowering cheap: keep what torch computes again for every program.

Lowering one operator takes 0.5 s upstream, most of it for things that do not depend on the
program: the dispatcher is walked for composite operators, three times, and 36,000 kernels are
registered and removed again, six times. Both results are kept, keyed by everything they depend
on. Lowering a model spends a fifth of its time on deep-copying the provenance of
nodes, which nobody writes to; it is shared instead. Each pass makes Python code of its graph,
which hardly any graph ever runs; that waits until somebody wants it. What is lowered is unchanged
(docs/adr/0004 has the measurements).
"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.export.decomp_utils
import torch.export.exported_program
from torch import _decomp
from torch._export import utils as export_utils
from torch._subclasses import fake_impls
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.graph import _PyTreeCodeGen
from torch.fx.graph_module import _WrappedCall
from torch.fx.traceback import NodeSource

Overrides = dict[Any, Callable[..., Any]]


@dataclass(frozen=True)
class _Kernels:
    """The Python kernels of an operator before and inside an override, and its fake rule."""

    before: dict[Any, Any]
    inside: dict[Any, Any]
    fake: Any


class _KeptOverrides:
    """Stands for torch.export's override of composite operators.

    The first time a set of overrides is entered, upstream's own code registers it and the
    outcome is kept; the next time the operators' kernel tables are exchanged for the kept ones.
    """

    def __init__(self, original: Callable[[Overrides], AbstractContextManager[None]]) -> None:
        self._original = original
        self._kept: dict[Any, dict[Any, _Kernels]] = {}

    @contextmanager
    def __call__(self, overrides: Overrides) -> Iterator[None]:
        key = frozenset((op, _identity(function)) for op, function in overrides.items())
        kept = self._kept.get(key)
        if kept is None or any(op.py_kernels != kernels.before for op, kernels in kept.items()):
            before = {op: op.py_kernels.copy() for op in overrides}
            with self._original(overrides):
                self._kept[key] = {
                    op: _Kernels(
                        before[op],
                        op.py_kernels.copy(),
                        fake_impls.op_implementations_dict.get(op),
                    )
                    for op in overrides
                }
                yield
            return
        for op, kernels in kept.items():
            _exchange(op, kernels.inside)
            if kernels.fake is not None and op not in fake_impls.op_implementations_dict:
                fake_impls.op_implementations_dict[op] = kernels.fake
        try:
            yield
        finally:
            for op, kernels in kept.items():
                _exchange(op, kernels.before)
                fake_impls._deregister_op_impl(op)


def _exchange(op: Any, kernels: dict[Any, Any]) -> None:
    op.py_kernels.clear()
    op.py_kernels.update(kernels)
    op._dispatch_cache.clear()


def _identity(function: Callable[..., Any]) -> Any:
    """Upstream makes a new function for "decompose this" each time; they are all the same."""
    inner = getattr(function, "func", None)
    if inner is not None and inner.__name__ == "_special_op_to_decompose_cia":
        return inner.__name__
    return function


_recompile = GraphModule.recompile
_reduce = GraphModule.__reduce__
_OF_THE_CODE = ("_code", "_lineno_map", "_prologue_start")


class _DeferredCode:
    """The Python code of a graph, made when somebody asks for it.

    It stands where the module's class has ``forward``, and is what ``recompile`` returns.
    """

    def __init__(self, module: GraphModule) -> None:
        self._module = weakref.ref(module)

    @functools.cached_property
    def made(self) -> Any:
        """What upstream's ``recompile`` returns; it puts the real ``forward`` in our place."""
        module = self._module()
        assert module is not None, "the module is gone"
        return _recompile(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)

    def __get__(self, instance: GraphModule | None, owner: type[GraphModule]) -> Any:
        assert self.made is not None
        return (owner if instance is None else instance).forward


class _FromCode:
    """An attribute of a graph module that ``recompile`` sets."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: GraphModule | None, owner: type[GraphModule]) -> Any:
        if instance is None:
            return self
        _settle(instance)
        if self.name not in vars(instance):
            raise AttributeError(self.name)
        return vars(instance)[self.name]


def _settle(module: GraphModule) -> None:
    """Make the code now, if it was put off."""
    waiting = vars(type(module)).get("forward")
    if isinstance(waiting, _DeferredCode):
        assert waiting.made is not None


def _recompile_later(module: GraphModule) -> Any:
    """Stands for ``GraphModule.recompile``; each module has a class of its own."""
    if isinstance(module, _LazyGraphModule):  # upstream's own way to do this, in some places
        return _recompile(module)
    if isinstance(module._graph._codegen, _PyTreeCodeGen):
        module._in_spec = module._graph._codegen.pytree_info.in_spec
        module._out_spec = module._graph._codegen.pytree_info.out_spec
    for name in _OF_THE_CODE:
        vars(module).pop(name, None)
    owner: Any = type(module)
    owner.forward = _DeferredCode(module)
    if "_wrapped_call" not in vars(owner):
        owner._wrapped_call = _WrappedCall(owner, vars(owner).get("__call__"))
    owner.__call__ = _call_wrapped
    module._recompile_submodules()
    return owner.__dict__["forward"]


def _call_wrapped(module: Any, *args: Any, **kwargs: Any) -> Any:
    return module._wrapped_call(module, *args, **kwargs)


def _reduce_settled(module: GraphModule) -> Any:
    """Pickling takes the code from the module's attributes."""
    _settle(module)
    return _reduce(module)


class _CollectedOnce:
    """The composite operators, as long as nothing is registered."""

    def __init__(self, collect: Callable[[], Any]) -> None:
        self._collect = collect
        self._found: Any = None
        self._registered: tuple[int, int] | None = None
        self._loaded: tuple[int, ...] | None = None

    def __call__(self) -> Any:
        # Listing all operators takes 6 ms; nothing is registered without one of these growing.
        loaded = len(sys.modules), len(torch.ops.loaded_libraries), len(torch.library._defs)
        if loaded != self._loaded and self._registered != _registrations():
            self._found = self._collect()
            self._registered = _registrations()  # collecting itself materialises operators
        self._loaded = loaded
        return self._found


def _registrations() -> tuple[int, int]:
    """Changes whenever an operator or a namespace is registered."""
    return len(torch._C._dispatch_get_all_op_names()), len(torch.ops._dir)


_get_decompositions = _decomp.get_decompositions
_decompositions: dict[Any, dict[Any, Any]] = {}


def _get_decompositions_once(
    aten_ops: Sequence[Any], type: str = "post_autograd"
) -> dict[Any, Callable[..., Any]]:
    """Stands for ``get_decompositions``, which sorts all 1,500 known ones at each call."""
    known = _decomp.global_decomposition_table.get(type, {})
    key = (tuple(aten_ops), type, len(known), hash(tuple(map(id, known.values()))))
    if key not in _decompositions:
        _decompositions[key] = _get_decompositions(aten_ops, type)
    return dict(_decompositions[key])


@functools.cache
def install() -> None:
    """Install all of it in this process; further calls do nothing."""
    NodeSource.__deepcopy__ = lambda self, memo: self  # type: ignore[attr-defined]
    graph_module: Any = GraphModule
    graph_module.recompile = _recompile_later
    graph_module.__reduce__ = _reduce_settled
    for name in _OF_THE_CODE:
        setattr(graph_module, name, _FromCode(name))
    _replace_everywhere(_get_decompositions, _get_decompositions_once)
    override = torch.export.exported_program._override_composite_implicit_decomp
    vars(torch.export.exported_program)[override.__name__] = _KeptOverrides(override)
    collect_once = _CollectedOnce(export_utils._collect_all_valid_cia_ops)
    for module in (export_utils, torch.export.exported_program, torch.export.decomp_utils):
        module._collect_all_valid_cia_ops = collect_once  # type: ignore[attr-defined]


def _replace_everywhere(original: Any, replacement: Any) -> None:
    """In every module that has imported a function by its name."""
    name: str = original.__name__
    for module in list(sys.modules.values()):
        names: dict[str, Any] = getattr(module, "__dict__", {})
        if names.get(name) is original:
            names[name] = replacement


def settle() -> None:
    """Tell the garbage collector that what is loaded now stays.

    Millions of objects of the imported libraries are otherwise walked by every full
    collection, and tracing allocates enough to trigger several per program.
    """
    gc.collect()
    gc.freeze()
