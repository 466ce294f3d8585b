"""Track the dtypes that a program's values have in eager, while a run keeps them in float64.

Each operator rounds to the dtype that it computes in, and modules ask tensors for their dtype and
cast to it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness.model.trees import leaves, map_leaves

_EAGER_DTYPE = "_conform_eager_dtype"
_WIDE = {torch.float64, torch.complex128}
_CASTS = {
    torch.Tensor.float: torch.float32,
    torch.Tensor.half: torch.float16,
    torch.Tensor.bfloat16: torch.bfloat16,
    torch.Tensor.double: torch.float64,
}
# Operators of other namespaces may return another dtype than their arguments'.
_PROMOTING = frozenset(("aten", "prims"))
# Result dtypes of operators, by overload and dtypes of arguments.
_PROMOTED: dict[Any, torch.dtype] = {}
_TO: Any = torch.ops.aten.to
_CONVERSIONS = frozenset(
    [torch.Tensor.to, torch.Tensor.type, torch.Tensor.type_as]
    + [getattr(_TO, name) for name in _TO.overloads()]
)
_DTYPE: Any = torch.Tensor.dtype.__get__  # type: ignore[attr-defined]  # a descriptor


@functools.cache
def unit_roundoff(dtype: torch.dtype) -> float:
    """Return the unit roundoff of a floating or complex dtype."""
    return float(torch.finfo(dtype).eps) / 2


def get_compute_dtype(dtype: torch.dtype, arithmetic: str | None) -> torch.dtype:
    """Return the dtype in which a target computes what eager computes in ``dtype``.

    Args:
        dtype: floating or complex.
        arithmetic: as ``Precision.arithmetic``.
    """
    if arithmetic is None or dtype.is_complex:
        return dtype
    narrow: torch.dtype = getattr(torch, arithmetic)
    return narrow if unit_roundoff(narrow) > unit_roundoff(dtype) else dtype


def is_rounded(dtype: torch.dtype) -> bool:
    """Whether values of a dtype are rounded: floating or complex, but not one-byte codes."""
    return (dtype.is_floating_point and dtype.itemsize > 1) or dtype.is_complex


def is_widening(source: torch.dtype, target: torch.dtype) -> bool:
    """Whether a cast between two floating dtypes is exact."""
    return (
        source.is_floating_point
        and target.is_floating_point
        and unit_roundoff(target) <= unit_roundoff(source)
    )


class EagerDtypes(TorchFunctionMode):
    """Function mode that reports float64 tensors with the dtype that they have in eager.

    A cast to the dtype that a tensor already has returns that tensor, as in eager; a write to one
    is then a write to the other.

    Args:
        default: dtype of tensors that are created without one.
    """

    def __init__(self, default: torch.dtype) -> None:
        super().__init__()
        self._default = default
        # Whether the running call names float64. If it does not, a float64 argument comes from a
        # tensor that is kept in float64.
        self._names_wide = False

    def get(self, tensor: torch.Tensor) -> torch.dtype:
        """Return the dtype of a tensor in eager."""
        if tensor.dtype not in _WIDE:
            return tensor.dtype
        known: torch.dtype | None = getattr(tensor, _EAGER_DTYPE, None)
        if known is not None:
            return known
        return self._default.to_complex() if tensor.dtype.is_complex else self._default

    def mark(self, tree: Any, dtype: torch.dtype) -> None:
        """Record the eager dtype of the float64 tensors of a tree."""
        if dtype == self._default:
            return
        for leaf in leaves(tree):
            if isinstance(leaf, torch.Tensor) and leaf.dtype in _WIDE:
                same_kind = leaf.dtype.is_complex == dtype.is_complex
                mark(leaf, dtype if same_kind else _counterpart(dtype))

    def get_result_dtype(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> torch.dtype:
        """Return the dtype in which an operator computes in eager.

        It is the dtype of the floating results, or else the dtype that the arguments promote to.

        Args:
            func: the overload.
            args: its arguments, floating tensors in float64.
            kwargs: its keyword arguments.
        """
        given: list[torch.dtype] = []
        dims: list[int] = []
        for leaf in (*leaves(args), *leaves(kwargs)):
            if isinstance(leaf, torch.Tensor):
                dtype = self.get(leaf)
                if is_rounded(dtype):
                    given.append(dtype)
                    dims.append(leaf.dim())
            elif isinstance(leaf, torch.dtype) and self._is_named(leaf):
                return leaf
        if not given:
            return self._default
        if func.namespace in _PROMOTING and all(dtype == given[0] for dtype in given):
            return given[0]
        signature = func, tuple(zip(given, (bool(dim) for dim in dims), strict=True))
        known = _PROMOTED.get(signature)
        if known is None:
            known = _PROMOTED[signature] = self._promote(func, args, kwargs)
        return known

    def _is_named(self, dtype: torch.dtype) -> bool:
        """Whether the program passes this dtype, and it is not taken from a float64 tensor."""
        return is_rounded(dtype) and (dtype not in _WIDE or self._names_wide)

    def _promote(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.dtype:
        """Run the operator on meta tensors; if it cannot, promote as elementwise operators do."""
        try:
            found = leaves(
                func(*map_leaves(self._on_meta, args), **map_leaves(self._on_meta, kwargs))
            )
        except Exception:  # needs data, or has no meta kernel
            found = []
        for leaf in found:
            if isinstance(leaf, torch.Tensor) and is_rounded(leaf.dtype):
                return leaf.dtype
        tensors = [self._on_meta(leaf) for leaf in (*leaves(args), *leaves(kwargs))]
        inexact = [x for x in tensors if isinstance(x, torch.Tensor) and is_rounded(x.dtype)]
        return functools.reduce(torch.promote_types, _strongest(inexact))

    def _on_meta(self, item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        return torch.empty_strided(
            item.shape, item.stride(), dtype=self.get(item), device=torch.device("meta")
        )

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func == _DTYPE:
            return self.get(args[0])
        if func is torch.result_type:
            return func(*map(self._on_meta, args), **kwargs)
        dtype = _CASTS.get(func)
        if dtype is None and func in _CONVERSIONS:
            dtype = next(self._find_dtypes(args[1:], kwargs), None)
        named = (dtype, *args, *kwargs.values())
        self._names_wide = any(item is wide for wide in _WIDE for item in named)
        if dtype is not None:
            return self._cast(func, args, kwargs, dtype)
        try:
            return func(*args, **kwargs)
        except RuntimeError:
            # Composite operators compare dtypes before they reach the dispatch mode, which widens
            # tensors that are neither state nor inputs: plain attributes of a module. An operator
            # that writes would write to the copy.
            if "out" in kwargs or getattr(func, "__name__", "_").endswith("_"):
                raise
            wide_args, wide_kwargs = map_leaves(_widen, args), map_leaves(_widen, kwargs)
            if all(map(operator.is_, leaves((args, kwargs)), leaves((wide_args, wide_kwargs)))):
                raise
            return func(*wide_args, **wide_kwargs)

    def _find_dtypes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.dtype]:
        for item in (*args, *kwargs.values()):
            if isinstance(item, torch.dtype):
                yield item
            elif isinstance(item, torch.Tensor):
                yield self.get(item)

    def _cast(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype
    ) -> Any:
        """Cast to a dtype; a cast that changes the eager dtype must reach the dispatch mode."""
        tensor = args[0]
        if tensor.dtype not in _WIDE and not is_rounded(dtype):
            return func(*args, **kwargs)
        layout = kwargs.get("memory_format") or torch.preserve_format
        flags = [item for item in args if isinstance(item, bool)]  # non_blocking, copy
        copies = bool(kwargs.get("copy", flags[1:] == [True]))
        if self.get(tensor) == dtype and not copies and layout == torch.preserve_format:
            return tensor
        # torch drops a cast to the dtype that it is stored in before the dispatch mode sees it.
        return torch.ops.aten._to_copy(tensor, dtype=dtype, memory_format=layout)


def mark(tensor: torch.Tensor, dtype: torch.dtype) -> None:
    """Record the dtype that a tensor has in eager."""
    setattr(tensor, _EAGER_DTYPE, dtype)


def widen_dtype(dtype: torch.dtype) -> torch.dtype | None:
    """Return the dtype in which the oracle represents a dtype; None where it stays the same."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else None


def widen_copy(item: Any) -> Any:
    """Return a copy of a tensor in the oracle's dtype, marked with its own; others as they are."""
    if not isinstance(item, torch.Tensor):
        return item
    copy = item.to(widen_dtype(item.dtype) or item.dtype, copy=True)
    mark(copy, item.dtype)
    return copy


def _widen(item: Any) -> Any:
    """Widen a tensor whose values are rounded to less than float64; leave others."""
    narrow = isinstance(item, torch.Tensor) and is_rounded(item.dtype) and item.dtype not in _WIDE
    return widen_copy(item) if narrow else item


def _counterpart(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real() if dtype.is_complex else dtype.to_complex()


def _strongest(tensors: list[torch.Tensor]) -> list[torch.dtype]:
    """Return the dtypes that decide a promotion: of tensors with dimensions, if there are any."""
    with_dims = [tensor.dtype for tensor in tensors if tensor.dim()]
    return with_dims or [tensor.dtype for tensor in tensors]
