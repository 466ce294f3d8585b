"""Avoid generating Python code for graphs that never run.

Each pass over a graph generates its Python code, and almost no graph runs.

Assumes that all reads of the code go through ``forward``, the call, pickling and three attributes.
Verified by digests of ``GraphModule`` and the classes that read or set its code (``originals``).
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.graph import _PyTreeCodeGen
from torch.fx.graph_module import _WrappedCall

from harness.vendors.replacements import AttributeReplacer

_recompile = GraphModule.recompile
_reduce = GraphModule.__reduce__
_OF_THE_CODE = ("_code", "_lineno_map", "_prologue_start")


class DeferredCode:
    """The Python code of a graph, generated on first use.

    It replaces ``forward`` of the module's class, and ``recompile`` returns it.
    """

    def __init__(self, module: GraphModule) -> None:
        self._module = weakref.ref(module)

    @functools.cached_property
    def made(self) -> Any:
        """Result of upstream's ``recompile``, which also sets the class's real ``forward``."""
        module = self._module()
        assert module is not None, "the module is gone"
        return _recompile(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)

    def __get__(self, instance: GraphModule | None, owner: type[GraphModule]) -> Any:
        assert self.made is not None
        return (owner if instance is None else instance).forward


class _FromCode:
    """An attribute of graph modules that upstream's ``recompile`` sets."""

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
    """Generate the code now if it was deferred."""
    waiting = vars(type(module)).get("forward")
    if isinstance(waiting, DeferredCode):
        assert waiting.made is not None


def _recompile_later(module: GraphModule) -> Any:
    """Replaces ``GraphModule.recompile``; each module has its own class."""
    if isinstance(module, _LazyGraphModule):  # upstream defers this one itself
        return _recompile(module)
    if isinstance(module._graph._codegen, _PyTreeCodeGen):
        module._in_spec = module._graph._codegen.pytree_info.in_spec
        module._out_spec = module._graph._codegen.pytree_info.out_spec
    for name in _OF_THE_CODE:
        vars(module).pop(name, None)
    owner: Any = type(module)
    owner.forward = DeferredCode(module)
    if "_wrapped_call" not in vars(owner):
        owner._wrapped_call = _WrappedCall(owner, vars(owner).get("__call__"))
    owner.__call__ = _call_wrapped
    module._recompile_submodules()
    return owner.__dict__["forward"]


def _call_wrapped(module: Any, *args: Any, **kwargs: Any) -> Any:
    return module._wrapped_call(module, *args, **kwargs)


def _reduce_settled(module: GraphModule) -> Any:
    """Replaces ``__reduce__``, which reads the code from the module's attributes."""
    _settle(module)
    return _reduce(module)


def install(replace: AttributeReplacer) -> None:
    """Defer the code of every graph module from now on."""
    replace(GraphModule, "recompile", _recompile_later)
    replace(GraphModule, "__reduce__", _reduce_settled)
    for name in _OF_THE_CODE:
        replace(GraphModule, name, _FromCode(name))
