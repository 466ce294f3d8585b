"""Make repeated lowering cheap: keep what torch computes again for every program.

Lowering one operator takes 0.5 s upstream, most of it for things that do not depend on the
program: the dispatcher is walked for composite operators, three times, and 36,000 kernels are
registered and removed again, six times. Both results are kept, keyed by everything they depend
on. Lowering a model spends a fifth of its time on deep-copying the provenance of
nodes, which nobody writes to; it is shared instead. Calibrating an integer recipe looks for the
range of each tensor in up to 100,000 steps of two tensor operations; those that change nothing are
skipped. What is lowered is unchanged (docs/adr/0004 has the measurements).
"""

from __future__ import annotations

import functools
import gc
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy
import torch
import torch.export.decomp_utils
import torch.export.exported_program
from torch._export import utils as export_utils
from torch._subclasses import fake_impls
from torch.fx.traceback import NodeSource
from torchao.quantization.pt2e.observer import HistogramObserver

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
    HistogramObserver._non_linear_param_search = search_range


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


def search_range(observer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """``HistogramObserver._non_linear_param_search``, with the same result bit for bit.

    Upstream moves two quantiles towards each other by 1e-5 of the total and compares them with
    the cumulated histogram, two tensor operations a step, up to 100,000 steps. Which step first
    passes each bin is found beforehand here; steps that pass none are skipped.

    Returns:
        The smallest and the largest value to represent, float tensors without dimensions.
    """
    total = observer.histogram.sum().item()
    cumulated = observer.histogram.cumsum(0).numpy()
    rising, falling = _quantiles()
    # A tensor is compared with a number in the tensor's dtype.
    low, high = ((share * total).astype(cumulated.dtype) for share in (rising, falling))
    passed_low = numpy.searchsorted(low, cumulated, side="right").tolist()
    passed_high = numpy.searchsorted(-high, -cumulated, side="right").tolist()
    start, end = 0, observer.bins - 1
    up = down = 0
    smallest = math.inf
    while rising[up] < falling[down]:
        left, right = start, end
        while left < end and passed_low[left] <= up + 1:
            left += 1
        while right > start and passed_high[right] <= down + 1:
            right -= 1
        if left - start > end - right:
            up += 1
            right = end
        elif right < end:
            down += 1
            left = start
        elif start < end:
            down = min(passed_high[end], len(falling)) - 1  # nothing moves before
            continue
        else:
            break
        error = observer._compute_quantization_error(left, right)
        if error > smallest:
            break
        smallest, start, end = error, left, right
    width = (observer.max_val - observer.min_val) / observer.bins
    return observer.min_val + width * start, observer.min_val + width * (end + 1)


@functools.cache
def _quantiles() -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """Every value of the two quantiles, summed up as upstream does, until both are beyond the
    other's end."""
    steps = numpy.full(100_003, 1e-5)
    steps[0] = 0.0
    falling = -steps
    falling[0] = 1.0
    return numpy.add.accumulate(steps), numpy.add.accumulate(falling)
