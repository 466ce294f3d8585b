"""Operators and the ways to run them in float64, looked up once per overload.

A way takes the mode, the operator and the arguments of a call. It returns NotImplemented for a call
that it does not run; the next way of the operator takes that call.
:mod:`harness.numerics.error_model.rules` has the rules by which results err.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from harness.numerics.error_model.discontinuities import DiscontinuityMode
from harness.numerics.error_model.ranges import Interval
from harness.numerics.error_model.rules import Rule, base_name, get_rule
from harness.numerics.error_model.terms import Args, Kwargs
from harness.numerics.formats.llm_operators import COMPOSITIONS
from harness.numerics.formats.semantics import DEFAULT_EPSILON
from harness.numerics.large_tensors import attention
from harness.vendors.torch import (
    DispatchKey,
    _maybe_get_opdef,
    decomposition_table,
)


class OperatorMode(DiscontinuityMode, ABC):  # type: ignore[no-untyped-call]
    """Interface that the ways need from a mode; perturbs nothing itself.

    Attributes:
        depth: number of compound operations that the current one is part of.
        is_custom: whether the current operation is part of a custom operator.
        is_perturbed: whether results have rounding errors.
    """

    depth = 0
    is_custom = False
    is_perturbed = False

    @property
    def running_means(self) -> bool:
        """Whether each deviation of a variance errs on its own."""
        return False

    @abstractmethod
    def decode(self, operator: Operator, args: Args) -> torch.Tensor:
        """Decode codes of a quantized graph."""

    @abstractmethod
    def run_attention(self, operator: Operator, call: attention.AttentionCall) -> torch.Tensor:
        """Run attention with many scores."""

    @abstractmethod
    def run_primitive(self, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
        """Run one primitive operation on float64 arguments."""

    def quantize(self, operator: Operator, args: Args, kwargs: Kwargs) -> torch.Tensor:
        """Quantize in float32, as eager does: a tie must round as it does in the program."""
        narrow = (x.float() if is_wide(x) else x for x in args[1:])
        return operator.func(args[0].float(), *narrow, **kwargs)  # type: ignore[no-any-return]

    @contextmanager
    def inside_compound(self, name: str) -> Iterator[None]:
        """Run the decomposition of a compound operation."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def in_float32(self, exact_terms: int) -> AbstractContextManager[None]:
        """Run an operation in float32, independent of the program's dtype; its sums round once in
        ``exact_terms`` terms."""
        return nullcontext()

    def clamp_to_domain(
        self, operator: Operator, x: torch.Tensor, interval: Interval
    ) -> torch.Tensor:
        """Return a function's argument without the noise that moves it out of the domain."""
        return x

    def perturb_arguments(self, operator: Operator, args: Args) -> Args:
        """Return the arguments of a function as its implementation may see them."""
        return args

    def round_constants(
        self, operator: Operator, args: Args, kwargs: Kwargs
    ) -> tuple[Args, Kwargs]:
        """Return the arguments with constants as a target may round them."""
        return args, kwargs

    def interpolate(self, operator: Operator, args: Args) -> torch.Tensor:
        """Run an interpolation that takes output sizes."""
        return operator.func(*args)  # type: ignore[no-any-return]

    def limit_range(self, operator: Operator, result: Any, args: Args, kwargs: Kwargs) -> Any:
        """Return the result of the usual formula where an intermediate leaves the dtype's range."""
        return result


Way: TypeAlias = Callable[[OperatorMode, "Operator", Args, Kwargs], Any]


@dataclass(frozen=True, slots=True)
class Operator:
    """An overload, and how a float64 mode runs it.

    Attributes:
        func: the overload.
        name: base name.
        schema: qualified name, ``namespace::name``.
        rule: the rule of its base name.
        is_mutable: it writes to an argument.
        takes_narrow: it takes tensors in their own dtypes, and constants as they are.
        ways: the ways to run a call, in the order in which they are tried.
    """

    func: Any
    name: str
    schema: str
    rule: Rule
    is_mutable: bool
    takes_narrow: bool
    ways: tuple[Way, ...]

    def run(self, mode: OperatorMode, args: Args, kwargs: Kwargs) -> Any:
        """Run a call in the first way that takes it."""
        for way in self.ways:
            result = way(mode, self, args, kwargs)
            if result is not NotImplemented:
                return result
        raise NotImplementedError(f"no way to run {self.func}")


@functools.cache
def get_operator(func: Any) -> Operator:
    """Return the operator of an overload."""
    name, is_mutable = base_name(func), func._schema.is_mutable
    is_encoding = name.startswith(("quantize_per", "quantize_affine", "choose_qparams"))
    ways = tuple(_list_ways(func, name, get_rule(name)))
    return Operator(func, name, func._schema.name, get_rule(name), is_mutable, is_encoding, ways)


def _list_ways(func: Any, name: str, rule: Rule) -> Iterator[Way]:
    is_mutable = func._schema.is_mutable
    for begins, way in _ENCODINGS.items():
        if name.startswith(begins):
            yield way
            return
    if (composition := COMPOSITIONS.get(func._schema.name)) is not None:
        yield functools.partial(_run_custom_function, composition)
        return
    custom = None if is_mutable or func.namespace == "prims" else _maybe_get_opdef(func)
    if custom is not None:
        yield functools.partial(_run_custom_function, custom._init_fn)
        return
    if name in _FOR_SOME_CALLS:
        yield _FOR_SOME_CALLS[name]
    if rule.is_compound and (decomposition := _find_decomposition(func, name)) is not None:
        yield functools.partial(_run_compound, decomposition)
        return
    if rule.interpolate is not None and "vec" not in func._schema.overload_name:
        yield lambda mode, operator, args, kwargs: mode.interpolate(operator, args)
        return
    if not is_mutable and func.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd):
        yield _run_composite
    if func is torch.ops.prims.var.default:
        yield _run_variance
    if rule.jump is not None and (not is_mutable or func._schema.name.endswith("_")):
        yield _run_jump  # not where it writes to ``out=``
    yield _run_primitive


def _find_decomposition(func: Any, name: str) -> Callable[..., Any] | None:
    if name == "_fused_rms_norm":
        return _decompose_rms_norm
    if func in decomposition_table or not func._schema.name.endswith("_"):
        return decomposition_table.get(func)
    pure = decomposition_table.get(getattr(torch.ops.aten, name).default)
    if pure is None:
        return None

    def in_place(written: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return written.copy_(pure(written, *args, **kwargs))

    return in_place


def _decompose_rms_norm(x: torch.Tensor, shape: Any, weight: Any, epsilon: float | None) -> Any:
    """Decompose an rms norm; without an epsilon, with the default of the program's dtype."""
    decomposition = decomposition_table[torch.ops.aten._fused_rms_norm.default]
    return decomposition(x, shape, weight, DEFAULT_EPSILON if epsilon is None else epsilon)


def _choose_qparams(mode: OperatorMode, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
    """Choose the parameters of a quantization in float32, as the program does."""
    return operator.func(args[0].float(), *args[1:], **kwargs)


def _run_custom_function(
    function: Callable[..., Any], mode: OperatorMode, operator: Operator, args: Args, kwargs: Kwargs
) -> Any:
    """Run Python code that defines the meaning of a custom operator, but not the dtypes in which a
    target computes it."""
    outer, mode.is_custom = mode.is_custom, True
    try:
        with mode:
            return function(*args, **kwargs)
    finally:
        mode.is_custom = outer


def _run_large_attention(mode: OperatorMode, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
    call = attention.find_large(*args, **kwargs)
    if call is None:
        return NotImplemented
    # No program uses the second result.
    return mode.run_attention(operator, call), call.query.new_empty(0)


def _run_compound(
    function: Callable[..., Any], mode: OperatorMode, operator: Operator, args: Args, kwargs: Kwargs
) -> Any:
    """Run a compound operator as its decomposition."""
    if operator.rule.errs_in_argument:
        args = mode.perturb_arguments(operator, args)
    with mode, mode.inside_compound(operator.name):
        result = function(*args, **kwargs)
    return result if operator.is_mutable else mode.limit_range(operator, result, args, kwargs)


def _run_composite(mode: OperatorMode, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
    """Run an operator as the dispatcher decomposes it: the call comes from a decomposition, where
    autograd has not done so."""
    with mode:
        return operator.func.decompose(*args, **kwargs)


def _run_variance(mode: OperatorMode, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
    """Run ``prims::var``, in which decompositions of variances and norms end, as its operations."""
    if mode.running_means:
        args = mode.perturb_arguments(operator, args)
    with mode:
        return _compute_variance(*args, **kwargs)


def _run_scaled_sum(mode: OperatorMode, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
    """Run an addition or subtraction with a factor as two operations, which both round."""
    if kwargs.get("alpha", 1) == 1:
        return NotImplemented
    with mode:
        left, right = args if operator.name != "rsub" else args[::-1]
        scaled = right * kwargs["alpha"]
        result = left + scaled if operator.name == "add" else left - scaled
        return left.copy_(result) if operator.is_mutable else result


def _run_jump(mode: OperatorMode, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
    """Run a call whose result jumps; a perturbed run sees arguments as the target may see them."""
    jump, func = operator.rule.jump, operator.func
    if jump is None or mode.depth or not jump.applies(func, args, kwargs):
        return NotImplemented
    if mode.is_perturbed:
        result = jump.run(mode, func, args, kwargs)
        return args[0].copy_(result) if operator.is_mutable else result
    given = (args[0].clone(), *args[1:]) if operator.is_mutable else args
    jump.run(mode, func, given, kwargs)
    return func(*args, **kwargs)


def _run_primitive(mode: OperatorMode, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
    if (interval := operator.rule.find_domain(args)) is not None:
        clamped = mode.clamp_to_domain(operator, args[0], interval)
        args = (args[0].copy_(clamped) if operator.is_mutable else clamped, *args[1:])
    return mode.run_primitive(operator, args, kwargs)


def _compute_variance(
    x: torch.Tensor,
    dims: Sequence[int] | None = None,
    correction: float | None = 1,
    *,
    output_dtype: Any = None,
) -> torch.Tensor:
    """Compute a two-pass variance as the operations of its decomposition."""
    over = list(range(x.dim())) if dims is None else list(dims)
    off = x - x.mean(over, keepdim=True)
    count = math.prod(x.shape[dim] for dim in over)
    return (off * off).sum(over) / max(0.0, count - (1 if correction is None else correction))


_ENCODINGS: dict[tuple[str, ...], Way] = {
    ("quantize_per", "quantize_affine"): lambda mode, *call: mode.quantize(*call),
    ("choose_qparams",): _choose_qparams,
    ("dequantize_per",): lambda mode, operator, args, kwargs: mode.decode(operator, args),
}
"""Operators that encode and decode, by the beginnings of their names."""

_FOR_SOME_CALLS: dict[str, Way] = {
    attention.NAME: _run_large_attention,
    **dict.fromkeys(("add", "rsub", "sub"), _run_scaled_sum),
}
"""Operators of which some calls run in a way of their own, by base name."""


def is_wide(item: Any) -> bool:
    """Whether an argument is a float64 tensor."""
    return isinstance(item, torch.Tensor) and item.dtype == torch.float64
