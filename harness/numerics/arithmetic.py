"""The dispatch mode that runs a module in float64, whatever its dtypes.

:mod:`harness.numerics.perturbation` has the one that errs as a target's arithmetic does;
:mod:`harness.numerics.oracle` makes references of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import torch

from harness.model.trees import leaves, map_leaves
from harness.numerics.control_flow import run_dense
from harness.numerics.dtypes import EagerDtypes, is_widening
from harness.numerics.error_model import discontinuities
from harness.numerics.error_model.noise import Patterns
from harness.numerics.error_model.operator_facts import Operator, operator
from harness.numerics.error_model.ranges import domain, inside
from harness.numerics.error_model.rounding import ACTIVATIONS, CASTS, RoundingKind, kind_of
from harness.numerics.formats.block_scaled import BlockProduct
from harness.numerics.formats.dequantize import Blocks, dequantize
from harness.numerics.formats.semantics import (
    DEFAULT_EPSILON,
    GENERIC,
    PreserveMeaning,
    Semantics,
)
from harness.numerics.kernels.products import compute
from harness.numerics.large_tensors import attention
from harness.numerics.large_tensors.deviations import Linear
from harness.numerics.large_tensors.shared_sums import Settled, Sums, is_large
from harness.vendors.torch import HigherOrderOperator, TorchDispatchMode


@dataclass
class Trace:
    """What a run without noise met, in order, for the perturbed runs to compare theirs with.

    Attributes:
        sums: the large sums.
        patterns: of the signs of noise.
        encoded: every activation that was encoded to blocks, before it was.
        jumps: arguments and result of everything that jumps.
        within: which arguments of a function were in its domain; None for all of them.
    """

    sums: Sums = field(default_factory=Sums)
    patterns: Patterns = field(default_factory=dict)
    encoded: list[torch.Tensor] = field(default_factory=list)
    jumps: list[tuple[tuple[Any, ...], torch.Tensor]] = field(default_factory=list)
    within: list[torch.Tensor | None] = field(default_factory=list)


class Float64Mode(discontinuities.Jumping, TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Runs every operation in float64, whatever dtype its arguments or its ``dtype=`` have.

    Args:
        semantics: what operators mean that are no arithmetic of tensors.

    Attributes:
        inputs: the program's inputs, widened; they stay alive while the mode is in use.
        settled: tensors that are the same in every run.
        trace: what the run met.
        shared: of what the runs share, the large sums and decoded weights.
        perturbs: whether results err.
        depth: how many compound operations the current one is inside of.
        written: storages that operators wrote to.
        dtypes: the dtype of each tensor in eager; also the function mode that answers with it.
        dtype: in which the current operator computes in eager; inside of a compound one, or of one
            that is written in Python, its own.
    """

    supports_higher_order_operators = True
    perturbs = False

    def __init__(self, semantics: Semantics = GENERIC) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.semantics = semantics
        self._meant = semantics.names()
        self.inputs: list[torch.Tensor] = []
        self.settled = Settled()
        self.trace = Trace()
        self.shared = self.trace.sums
        self.depth = 0
        self.written: set[int | None] = set()
        self.dtypes = EagerDtypes(torch.get_default_dtype())
        self.dtype = torch.get_default_dtype()
        self._is_meaning = False

    @property
    def running_means(self) -> bool:
        """Whether the deviations of a variance err one by one."""
        return False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else torch wraps every call of the mode, for a compiler that never runs under it."""
        return False

    @contextmanager
    def running(self) -> Iterator[None]:
        """While code of the program runs: it sees the dtypes that its tensors have in eager."""
        with self.dtypes, PreserveMeaning(self.semantics), self:
            yield

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            return run_dense(func, args, kwargs or {}, self.running)
        known, kwargs = operator(func), kwargs or {}
        if known.is_mutable:
            self.written |= {*_written(func, args, kwargs)}
        outer = self.dtype
        if not self.depth and not self._is_meaning:
            self.dtype = self.dtypes.of_result(func, args, kwargs)
        try:
            result = self._run(known, func, args, kwargs)
            if not known.is_mutable:
                self.dtypes.mark(result, self.dtype)
            return result
        finally:
            self.dtype = outer

    def _run(
        self, known: Operator, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run an operator in float64: as it is, or as what it is made of."""
        name = known.name
        if known.encodes:
            return self.quantize(func, args, kwargs)
        if known.measures:
            return func(args[0].float(), *args[1:], **kwargs)
        if known.schema in self._meant:
            meant = self._run_as_meant(func, args, kwargs)
            if meant is not None:
                return meant
        args, kwargs = self.round_numbers(name, args, kwargs)
        kwargs = map_leaves(_widen, kwargs) if kwargs else kwargs
        args = map_leaves(_keep if known.is_mutable else _widen, args)
        if known.decodes:
            return self.decode(name, args)
        if name == "_fused_rms_norm" and args[3] is None:
            args = (*args[:3], DEFAULT_EPSILON)
        if known.own is not None:
            # Written in Python: run as what it is made of. That is what it means, and not in which
            # dtypes a target computes it.
            outer, self._is_meaning = self._is_meaning, True
            try:
                with self:
                    return known.own(*args, **kwargs)
            finally:
                self._is_meaning = outer
        if name == attention.NAME and (call := attention.large(*args, **kwargs)) is not None:
            # No program uses the second result.
            return self.attend(call), call.query.new_empty(0)
        if known.parts is not None:
            if name in ACTIVATIONS:
                args = self.perturb_arguments(func, name, args)
            with self, self.inside(name):
                result = known.parts(*args, **kwargs)
            return result if known.is_mutable else self.leave_range(name, result, args, kwargs)
        if known.interpolates:
            return self.interpolate(func, name, args)
        if known.is_composite:
            # Reached from inside a decomposition, where autograd has not taken it apart.
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        if func is torch.ops.prims.var.default:
            if self.running_means:
                args = self.perturb_arguments(func, name, args)
            with self:  # what decompositions end in for variances and norms
                return _variance(*args, **kwargs)
        if name in ("add", "sub", "rsub") and kwargs.get("alpha", 1) != 1:
            with self:  # with a factor they round twice
                left, right = args if name != "rsub" else args[::-1]
                scaled = right * kwargs["alpha"]
                result = left + scaled if name == "add" else left - scaled
                return left.copy_(result) if known.is_mutable else result
        if known.may_jump and not self.depth and discontinuities.jumps(func, name, args, kwargs):
            if self.perturbs:
                return discontinuities.run(self, func, name, args, kwargs)
            given = (args[0].clone(), *args[1:]) if known.is_mutable else args
            discontinuities.run(self, func, name, given, kwargs)
            return func(*args, **kwargs)
        if (interval := domain(name, args)) is not None:
            confined = self.confine(args[0], interval)
            args = (args[0].copy_(confined) if known.is_mutable else confined, *args[1:])
        return self.operate(func, name, args, kwargs)

    def _run_as_meant(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> torch.Tensor | None:
        """What an operator of the semantics returns; None where this call is arithmetic."""
        blocks = self.semantics.decode(func, args, kwargs)
        if blocks is not None:
            self.dtype = blocks.dtype
            return self.dequantize(blocks)
        fused = self.semantics.product(func, args, kwargs)
        if fused is not None:
            weight = self.dequantize(fused.weight)
            with self:
                return torch.mm(fused.activation.double(), weight.mT)
        blocked = self.semantics.block_product(func, args, kwargs)
        if blocked is None:
            return None
        activation = self.encode(blocked)
        with self, self.in_float32(blocked.exact_terms):
            return blocked.multiply(activation)

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """While a compound operation runs as its parts."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def round_numbers(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with numbers as a target may hold them."""
        return args, kwargs

    def interpolate(self, func: Any, name: str, args: tuple[Any, ...]) -> torch.Tensor:
        """Run an interpolation whose sizes are given."""
        return func(*args)  # type: ignore[no-any-return]

    def leave_range(
        self, name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A result as its usual formula has it where an intermediate leaves the dtype's range."""
        return result

    def jump(self, function: Callable[..., torch.Tensor], *arguments: Any) -> torch.Tensor:
        """``function`` of its arguments, which are kept."""
        result = function(*arguments)
        kept = tuple(x.clone() if isinstance(x, torch.Tensor) else x for x in arguments)
        self.trace.jumps.append((kept, result))
        return result

    def divide(self, dividend: Any, divisor: Any) -> torch.Tensor:
        """A quotient as the target rounds it."""
        with self:
            return super().divide(dividend, divisor)

    def remain(self, dividend: Any, divisor: Any, whole: torch.Tensor) -> torch.Tensor:
        """What so many divisors leave of a dividend, as the target rounds it."""
        with self:
            return super().remain(dividend, divisor, whole)

    def confine(self, x: torch.Tensor, interval: tuple[float, float]) -> torch.Tensor:
        """The argument of a function that is defined on an interval only."""
        within = inside(x, interval)
        self.trace.within.append(None if bool(within.all()) else within)
        return x

    def attend(self, call: attention.Attention) -> torch.Tensor:
        """Attention with many scores."""
        found = attention.evaluate(call)
        tensors = (call.query, call.key, call.value)
        self.trace.sums.note(attention.NAME, tensors, found.out, found=found)
        return found.out

    def in_float32(self, exact_terms: int) -> AbstractContextManager[None]:
        """While an operation runs in float32, whatever the program's dtype, and rounds its sums
        once in so many terms."""
        return nullcontext()

    def perturb_arguments(self, func: Any, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a function as its implementation may see them."""
        return args

    def operate(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one primitive operation on float64 arguments."""
        kind, settled = self.kind(name, args, kwargs), self.settled.hold((args, kwargs))
        out = compute(func, name, args, kwargs)
        if kind is RoundingKind.EXACT and settled:
            self.settled.add(out)
        elif kind is RoundingKind.REDUCTION and is_large(func, args):
            call = None if settled else self.linear(func, name, args, kwargs)
            given = None if call is None else call.erring
            self.trace.sums.note(func, args, out, settled=settled, given=given)
        return out

    def kind(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RoundingKind:
        """How an operator rounds; a cast only where the other dtype has fewer digits. What is
        inside of a compound operation, targets may compute by a formula without that cast."""
        if name in CASTS and not self.depth:
            source = args[-1] if name == "copy" else args[0]
            keeps = is_wide(source) and is_widening(self.dtypes.of(source), self.dtype)
            return RoundingKind.EXACT if keeps else RoundingKind.ROUNDED
        return kind_of(name, args, kwargs)

    def linear(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Linear | None:
        """A call that is linear in its only argument that differs between runs."""
        call = Linear.of(func, name, args, kwargs)
        return call if call is not None and self.settled.hold(call.others) else None

    def quantize(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        """Quantize as eager does, in float32: a tie must fall as it does in the program."""
        narrow = (x.float() if is_wide(x) else x for x in args[1:])
        return func(args[0].float(), *narrow, **kwargs)  # type: ignore[no-any-return]

    def dequantize(self, blocks: Blocks) -> torch.Tensor:
        """Decode a block-quantized weight."""
        return blocks.values()

    def decode(self, name: str, args: tuple[Any, ...]) -> torch.Tensor:
        """Decode codes of a quantized graph; those of its weights once for all runs."""
        if not self.settled.hold(args):
            return dequantize(name, args)
        values = self.shared.decoded((name, *args), lambda: dequantize(name, args))
        self.settled.add(values)
        return values

    def encode(self, product: BlockProduct) -> torch.Tensor:
        """The activation of a product in an MX format, encoded to blocks and decoded again."""
        self.trace.encoded.append(product.activation)
        return product.encode(product.activation).values()


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[int | None]:
    """Storages of the arguments that a call writes to."""
    for argument, value in zip_longest(func._schema.arguments, args):
        if argument.alias_info is not None and argument.alias_info.is_write:
            for item in leaves(kwargs.get(argument.name, value)):
                yield storage_of(item)


def storage_of(item: Any) -> int | None:
    """What memory a tensor is in; None for what has none of its own kind."""
    if not isinstance(item, torch.Tensor) or item.layout != torch.strided:
        return None
    return int(item.untyped_storage()._cdata)


def _variance(
    x: torch.Tensor,
    dims: Sequence[int] | None = None,
    correction: float | None = 1,
    *,
    output_dtype: Any = None,
) -> torch.Tensor:
    """Two-pass variance as the operations it is made of."""
    over = list(range(x.dim())) if dims is None else list(dims)
    off = x - x.mean(over, keepdim=True)
    count = math.prod(x.shape[dim] for dim in over)
    return (off * off).sum(over) / max(0.0, count - (1 if correction is None else correction))


def is_wide(item: Any) -> bool:
    """Whether an argument is a tensor of float64."""
    return isinstance(item, torch.Tensor) and item.dtype == torch.float64


def _widen(item: Any) -> Any:
    """Floating tensors and dtypes to float64."""
    if isinstance(item, torch.Tensor):
        if item.dtype in (torch.float64, torch.complex128):
            return item
        return item.to(wide) if (wide := wide_dtype(item.dtype)) else item
    return _keep(item)


def _keep(item: Any) -> Any:
    """Dtypes to float64: for operations that write in place."""
    return wide_dtype(item) or item if isinstance(item, torch.dtype) else item


def wide_dtype(dtype: torch.dtype) -> torch.dtype | None:
    """What the oracle holds values of a dtype in; None for one that it takes as it is."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else None
