"""Avoid loading Inductor when executorch is imported.

``executorch.exir`` imports a torch pass that reverts ``auto_functionalized``, and with it
Inductor's pattern matcher and lowerings: a fifth of the time until a process can lower. The pass
runs once a program, and almost no program has such a node.

Assumes that the pass only removes copies onto themselves and dead code from other programs, which
this module does without Inductor. Verified by digests of the pass (``originals``).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_PASS = "torch.export._remove_auto_functionalized_pass"
_NAME = "unsafe_remove_auto_functionalized_pass"


class _Standing(MetaPathFinder, Loader):
    """Finder and loader of a replacement for torch's module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the replacement; other modules are not affected."""
        return ModuleSpec(fullname, self) if fullname == _PASS else None

    def exec_module(self, module: ModuleType) -> None:
        """Set the module's only public function."""
        setattr(module, _NAME, _remove)


_STANDING = _Standing()


def install() -> None:
    """Replace the module in future imports; a loaded module stays.

    Loads no part of torch, so that it can run before torch is imported.
    """
    if _STANDING not in sys.meta_path:
        sys.meta_path.insert(0, _STANDING)


def uninstall() -> None:
    """Restore torch's module."""
    if _STANDING in sys.meta_path:
        sys.meta_path.remove(_STANDING)
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(_NAME) is _remove:
            vars(module)[_NAME] = _real()


def _remove(program: ExportedProgram) -> ExportedProgram:
    """Replaces ``unsafe_remove_auto_functionalized_pass``."""
    if not _is_plain(program):
        done: ExportedProgram = _real()(program)
        return done
    import torch

    graph = program.graph
    with program.graph_module._set_replace_hook(program.graph_signature.get_replace_hook()):
        for node in graph.nodes:
            if node.target is torch.ops.aten.copy_.default and node.args[0] == node.args[1]:
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
        graph.eliminate_dead_code()
    return program


def _is_plain(program: ExportedProgram) -> bool:
    """Return whether a program has no node that Inductor would rewrite, and no submodule graph."""
    from executorch.exir.delegate import executorch_call_delegate
    from torch.fx import GraphModule

    from harness.vendors.torch import HigherOrderOperator

    if any(isinstance(child, GraphModule) for child in program.graph_module.children()):
        return False
    return all(
        node.users
        if node.op == "get_attr"
        else node.target is executorch_call_delegate
        or not isinstance(node.target, HigherOrderOperator)
        for node in program.graph.nodes
    )


def _real() -> Any:
    """Import and return torch's function."""
    if _STANDING in sys.meta_path:
        sys.meta_path.remove(_STANDING)
    if getattr(sys.modules.get(_PASS), _NAME, None) is _remove:
        sys.modules.pop(_PASS)
    return getattr(importlib.import_module(_PASS), _NAME)
