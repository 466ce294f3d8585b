"""Traces that leave torch's class of modules as it is.

A trace puts methods of its own in the place of ``Module.__getattr__`` and ``Module.__call__`` and
takes them back at its end. To write such a method to a class is to go through every class that
derives from it, and each graph module has one of its own: a millisecond a trace. Most tracers hand
on what an attribute is, and call a graph as it would be called: theirs are not written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.fx import GraphModule, _symbolic_trace
from torch.fx.experimental import proxy_tensor
from torch.nn import Module

_patch = _symbolic_trace._Patcher.patch_method
_ORIGINALS = {
    "__getattr__": _symbolic_trace._orig_module_getattr,
    "__call__": _symbolic_trace._orig_module_call,
}


def _is_needed(tracer: Any, method: str) -> bool:
    """Whether a tracer's own method does anything but call torch's."""
    if type(tracer) is proxy_tensor.PythonKeyTracer:
        return bool(tracer._autowrap_function_ids)
    if type(tracer) is not proxy_tensor._ModuleStackTracer or tracer._autowrap_function_ids:
        return True
    if method == "__getattr__":
        return bool(tracer.enable_attr_proxy)
    return not all(isinstance(each, GraphModule) for each in tracer.submodule_paths or ())


def _patch_where_needed(
    patcher: Any, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True
) -> None:
    """Stands for ``_Patcher.patch_method``."""
    if cls is Module and getattr(cls, name) is _ORIGINALS.get(name):
        code, cells = new_fn.__code__, new_fn.__closure__ or ()
        held = dict(zip(code.co_freevars, cells, strict=True))
        if "self" in held and not _is_needed(held["self"].cell_contents, name):
            return
    _patch(patcher, cls, name, new_fn, deduplicate)


def install() -> None:
    """Write to the class where it matters from now on."""
    patcher: Any = _symbolic_trace._Patcher
    patcher.patch_method = functools.wraps(_patch)(_patch_where_needed)
