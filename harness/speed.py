"""Make repeated lowering cheap: keep what torch computes again for every program.

Lowering one operator takes 0.5 s upstream, most of it for things that do not depend on the
program: the dispatcher is walked for composite operators, three times, and 36,000 kernels are
registered and removed again, six times. Both results are kept, keyed by everything they depend
on. Lowering a model spends a fifth of its time on deep-copying the provenance of
nodes, which nobody writes to; it is shared instead. What is lowered is unchanged
(docs/adr/0004 has the measurements).
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.export.decomp_utils
import torch.export.exported_program
from torch._export import utils as export_utils
from torch._subclasses import fake_impls
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


@functools.cache
def install() -> None:
    """Install all of it in this process; further calls do nothing."""
    NodeSource.__deepcopy__ = lambda self, memo: self  # type: ignore[attr-defined]
    override = torch.export.exported_program._override_composite_implicit_decomp
    vars(torch.export.exported_program)[override.__name__] = _KeptOverrides(override)
    collect = export_utils._collect_all_valid_cia_ops
    kept: dict[Any, Any] = {}

    def collect_once() -> Any:
        key = _registrations()
        if key in kept:
            return kept[key]
        found = collect()
        kept.clear()
        kept[_registrations()] = found  # collecting itself materialises operators
        return found

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
