"""Make repeated lowering cheap: keep what torch computes again for every program.

Lowering one operator takes 0.5 s upstream, of which 0.3 s goes into two things that do not
depend on the program: walking the dispatcher for composite operators, three times, and
re-evaluating one annotation 36,000 times. Both results are kept, keyed by everything they
depend on. Lowering a model spends a fifth of its time on deep-copying the provenance of
nodes, which nobody writes to; it is shared instead. What is lowered is unchanged
(docs/adr/0004 has the measurements).
"""

from __future__ import annotations

import functools
import gc
from typing import Any

import torch
import torch._ops
import torch.export.decomp_utils
import torch.export.exported_program
from torch._export import utils as export_utils
from torch.fx.traceback import NodeSource


class _KeptSubscripts:
    """Stands for ``Callable`` in torch._ops and keeps the results of subscripting it."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped
        self._kept: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._kept[key]
        except KeyError:
            return self._kept.setdefault(key, self._wrapped[key])
        except TypeError:  # unhashable: a subscript with a list
            return self._wrapped[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


@functools.cache
def install() -> None:
    """Install all of it in this process; further calls do nothing."""
    NodeSource.__deepcopy__ = lambda self, memo: self  # type: ignore[attr-defined]
    vars(torch._ops)["Callable"] = _KeptSubscripts(vars(torch._ops)["Callable"])
    collect = export_utils._collect_all_valid_cia_ops
    kept: dict[Any, Any] = {}

    def collect_once() -> Any:
        key = _registrations()
        if key not in kept:
            found = collect()
            kept.clear()
            kept[_registrations()] = found  # collecting itself materialises operators
        return kept.get(key) or next(iter(kept.values()))

    for module in (export_utils, torch.export.exported_program, torch.export.decomp_utils):
        module._collect_all_valid_cia_ops = collect_once  # type: ignore[attr-defined]


def settle() -> None:
    """Tell the garbage collector that what is loaded now stays.

    Millions of objects of the imported libraries are otherwise walked by every full
    collection, and tracing allocates enough to trigger several per program.
    """
    gc.collect()
    gc.freeze()


def _registrations() -> tuple[int, int]:
    """Changes whenever an operator or a namespace is registered."""
    return len(torch._C._dispatch_get_all_op_names()), len(torch.ops._dir)
