"""Traces that leave torch's class of modules as it is, and look at fewer frames.

A trace puts methods of its own in the place of ``Module.__getattr__`` and ``Module.__call__`` and
takes them back at its end. To write such a method to a class is to go through every class that
derives from it, and each graph module has one of its own: a millisecond a trace. Most tracers hand
on what an attribute is, and call a graph as it would be called: theirs are not written.

A trace of a module notes with each node where in the user's code it was made. It spells out all 80
frames of the stack for that, and reads a line of source for each, and keeps two.
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


class _Stack:
    """Stands for ``CapturedTraceback`` where a node is made."""

    def __init__(self, frame: FrameType | None) -> None:
        self._found: list[tuple[CodeType, int]] = []
        while frame is not None:
            if _is_of_interest(code := frame.f_code):
                self._found.append((code, frame.f_lineno))
            frame = frame.f_back

    @classmethod
    def extract(cls) -> _Stack:
        """The stack of the caller, without frames that no tracer keeps."""
        return cls(sys._getframe(1))

    def summary(self) -> traceback.StackSummary:
        """Its frames, the outermost first."""
        return traceback.StackSummary.from_list(
            [
                traceback.FrameSummary(code.co_filename, line, code.co_name)
                for code, line in reversed(self._found)
            ]
        )


def _is_of_interest(code: CodeType) -> bool:
    """Whether ``TracerBase._filter_traceback_frames`` may look at what is at a frame of this."""
    return code.co_name == "forward" or code.co_filename not in _uninteresting()


@functools.cache
def _uninteresting() -> frozenset[str]:
    return frozenset(uninteresting_files())


def install(replace: AttributeReplacer) -> None:
    """Write to the class where it matters from now on, and look at frames that do."""
    patch = functools.wraps(_patch)(_patch_where_needed)
    replace(_symbolic_trace._Patcher, "patch_method", patch)
    replace(proxy, "CapturedTraceback", _Stack)
