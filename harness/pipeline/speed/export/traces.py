"""Avoid patching torch's ``Module`` class and formatting whole stacks in each trace.

A trace replaces ``Module.__getattr__`` and ``Module.__call__`` and restores them when it ends. An
assignment to a class visits all of its subclasses, and each graph module has its own class: a
millisecond a trace. The methods of most tracers only forward attributes and calls of graph modules;
these are not assigned. A trace also records where in the user's code each node was created. It
formats 80 frames, with their source, and keeps two.

Assumes when a tracer's method only forwards, and which frames are filtered out. Verified by digests
of the tracers and the filter (``originals``).
"""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from torch.fx import GraphModule, _symbolic_trace, proxy
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.symbolic_shapes import uninteresting_files
from torch.nn import Module

from harness.vendors.replacements import AttributeReplacer

_patch = _symbolic_trace._Patcher.patch_method
_ORIGINALS = {
    "__getattr__": _symbolic_trace._orig_module_getattr,
    "__call__": _symbolic_trace._orig_module_call,
}


def _is_needed(tracer: Any, method: str) -> bool:
    """Return whether a tracer's method does more than call torch's."""
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
    """Replaces ``_Patcher.patch_method``."""
    if cls is Module and getattr(cls, name) is _ORIGINALS.get(name):
        code, cells = new_fn.__code__, new_fn.__closure__ or ()
        held = dict(zip(code.co_freevars, cells, strict=True))
        if "self" in held and not _is_needed(held["self"].cell_contents, name):
            return
    _patch(patcher, cls, name, new_fn, deduplicate)


class _Stack:
    """Replaces ``CapturedTraceback`` where a node is created."""

    def __init__(self, frame: FrameType | None) -> None:
        self._found: list[tuple[CodeType, int]] = []
        while frame is not None:
            if _is_of_interest(code := frame.f_code):
                self._found.append((code, frame.f_lineno))
            frame = frame.f_back

    @classmethod
    def extract(cls) -> _Stack:
        """Capture the caller's stack, without frames that all tracers filter out."""
        return cls(sys._getframe(1))

    def summary(self) -> traceback.StackSummary:
        """Return the frames, the outermost first."""
        return traceback.StackSummary.from_list(
            [
                traceback.FrameSummary(code.co_filename, line, code.co_name)
                for code, line in reversed(self._found)
            ]
        )


def _is_of_interest(code: CodeType) -> bool:
    """Return whether ``TracerBase._filter_traceback_frames`` may keep a frame of this code."""
    return code.co_name == "forward" or code.co_filename not in _uninteresting()


@functools.cache
def _uninteresting() -> frozenset[str]:
    return frozenset(uninteresting_files())


def install(replace: AttributeReplacer) -> None:
    """Patch only where necessary and capture only relevant frames from now on."""
    patch = functools.wraps(_patch)(_patch_where_needed)
    replace(_symbolic_trace._Patcher, "patch_method", patch)
    replace(proxy, "CapturedTraceback", _Stack)
