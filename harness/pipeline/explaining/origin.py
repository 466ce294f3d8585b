"""Where in a model's code a node of its exported graph comes from."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch.fx import Node

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in \S+\n\s+(.*)')
_TORCH = str(Path(torch.__file__).parent)


def source_of(node: Node) -> str:
    """``model.py:12: hidden = self.linear(x)``, of the innermost frame that is not torch's; empty
    where the graph does not say.

    What is below the current folder or among installed packages is spelled from there.
    """
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not frame[0].startswith(_TORCH) and frame[0][:1] != "<"]
    if not own:
        return ""
    path, line, code = own[-1]
    return f"{_short(path)}:{line}: {code.strip()}"


def module_of(node: Node) -> str:
    """The path of the submodule whose ``forward`` made the node, or empty."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def _short(path: str) -> str:
    if "site-packages/" in path:
        return path.rpartition("site-packages/")[2]
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
