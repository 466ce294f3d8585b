"""The dispatch mode that runs a module in float64, whatever its dtypes.

:mod:`harness.numerics.perturbation` has the mode that adds a target's rounding errors;
:mod:`harness.numerics.oracle` computes references from the runs.
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
from harness.numerics.error_model.noise import NoisePools
from harness.numerics.error_model.operator_facts import OperatorFacts, get_operator_facts
from harness.numerics.error_model.ranges import find_domain, is_inside
from harness.numerics.error_model.rounding import (
    ACTIVATIONS,
    CASTS,
    RoundingKind,
    get_rounding_kind,
)
from harness.numerics.formats.block_scaled import MxProduct
from harness.numerics.formats.dequantize import BlockQuantizedTensor, dequantize
from harness.numerics.formats.semantics import (
    DEFAULT_EPSILON,
    GENERIC_SEMANTICS,
    OperatorSemantics,
    PreserveOperators,
)
from harness.numerics.kernels.products import compute
from harness.numerics.large_tensors import attention
from harness.numerics.large_tensors.deviations import LinearCall
from harness.numerics.large_tensors.shared_sums import InvariantTensors, SharedSums, is_large
from harness.vendors.torch import HigherOrderOperator, TorchDispatchMode


@dataclass
class RunRecord:
    """Intermediates of an unperturbed run, in order, for the perturbed runs to compare with.

    Attributes:
        sums: the large sums.
        noise_pools: noise for large tensors, shared by the perturbed runs.
        encoded_activations: every activation that was encoded to blocks, before encoding.
        discontinuities: arguments and result of every discontinuous operation.
        in_domain: which arguments of a function were in its domain; None for all of them.
    """

    sums: SharedSums = field(default_factory=SharedSums)
    noise_pools: NoisePools = field(default_factory=dict)
    encoded_activations: list[torch.Tensor] = field(default_factory=list)
    discontinuities: list[tuple[tuple[Any, ...], torch.Tensor]] = field(default_factory=list)
    in_domain: list[torch.Tensor | None] = field(default_factory=list)


class Float64Mode(discontinuities.DiscontinuityMode, TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Runs every operation in float64, whatever dtype its arguments or its ``dtype=`` have.

    Args:
        semantics: meaning of operators that are not plain tensor arithmetic.

    Attributes:
        inputs: the program's inputs in float64; they stay alive while the mode is in use.
        invariant: tensors that are the same in every run.
        record: intermediates of this run.
        shared: large sums and decoded weights that the runs share.
        is_perturbed: whether results have rounding errors.
        depth: number of compound operations that the current one is part of.
        written: storages that operators wrote to.
        dtypes: the dtype of each tensor in eager; also the function mode that reports it.
        dtype: dtype in which the current operator computes in eager. Parts of a compound operator,
            or of one written in Python, have the dtype of the whole.
    """

    supports_higher_order_operators = True
    is_perturbed = False

    def __init__(self, semantics: OperatorSemantics = GENERIC_SEMANTICS) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.semantics = semantics
        self._defined_operators = semantics.names()
        self.inputs: list[torch.Tensor] = []
        self.invariant = InvariantTensors()
        self.record = RunRecord()
        self.shared = self.record.sums
        self.depth = 0
        self.written: set[int | None] = set()
        self.dtypes = EagerDtypes(torch.get_default_dtype())
        self.dtype = torch.get_default_dtype()
        self._in_custom_operator = False

    @property
    def running_means(self) -> bool:
        """Whether each deviation of a variance errs on its own."""
        return False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Prevent torch from wrapping every call for Dynamo, which never runs under this mode."""
        return False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run code of the program, which sees the dtypes that its tensors have in eager."""
        with self.dtypes, PreserveOperators(self.semantics), self:
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
        facts, kwargs = get_operator_facts(func), kwargs or {}
        if facts.is_mutable:
            self.written |= {*_find_written_storages(func, args, kwargs)}
        outer = self.dtype
        if not self.depth and not self._in_custom_operator:
            self.dtype = self.dtypes.get_result_dtype(func, args, kwargs)
        try:
            result = self._run(facts, func, args, kwargs)
            if not facts.is_mutable:
                self.dtypes.mark(result, self.dtype)
            return result
        finally:
            self.dtype = outer

    def _run(
        self, facts: OperatorFacts, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run an operator in float64: directly, or as its decomposition."""
        name = facts.name
        if facts.is_quantize:
            return self.quantize(func, args, kwargs)
        if facts.is_choose_qparams:
            return func(args[0].float(), *args[1:], **kwargs)
        if facts.schema in self._defined_operators:
            defined = self._run_by_semantics(func, args, kwargs)
            if defined is not None:
                return defined
        args, kwargs = self.round_constants(name, args, kwargs)
        kwargs = map_leaves(_widen, kwargs) if kwargs else kwargs
        args = map_leaves(_widen_dtype_argument if facts.is_mutable else _widen, args)
        if facts.is_dequantize:
            return self.decode(name, args)
        if name == "_fused_rms_norm" and args[3] is None:
            args = (*args[:3], DEFAULT_EPSILON)
        if facts.custom_function is not None:
            # Its Python code defines its meaning, but not the dtypes in which a target computes it.
            outer, self._in_custom_operator = self._in_custom_operator, True
            try:
                with self:
                    return facts.custom_function(*args, **kwargs)
            finally:
                self._in_custom_operator = outer
        if name == attention.NAME and (call := attention.find_large(*args, **kwargs)) is not None:
            # No program uses the second result.
            return self.run_attention(call), call.query.new_empty(0)
        if facts.decomposition is not None:
            if name in ACTIVATIONS:
                args = self.perturb_arguments(func, name, args)
            with self, self.inside_compound(name):
                result = facts.decomposition(*args, **kwargs)
            return result if facts.is_mutable else self.limit_range(name, result, args, kwargs)
        if facts.is_interpolation:
            return self.interpolate(func, name, args)
        if facts.is_composite:
            # Called from inside a decomposition, where autograd has not decomposed it.
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        if func is torch.ops.prims.var.default:
            if self.running_means:
                args = self.perturb_arguments(func, name, args)
            with self:  # decompositions of variances and norms end in this operator
                return _variance(*args, **kwargs)
        if name in ("add", "sub", "rsub") and kwargs.get("alpha", 1) != 1:
            with self:  # with a factor, two operations round
                left, right = args if name != "rsub" else args[::-1]
                scaled = right * kwargs["alpha"]
                result = left + scaled if name == "add" else left - scaled
                return left.copy_(result) if facts.is_mutable else result
        if (
            facts.may_be_discontinuous
            and not self.depth
            and discontinuities.is_discontinuous(func, name, args, kwargs)
        ):
            if self.is_perturbed:
                return discontinuities.run_discontinuous(self, func, name, args, kwargs)
            given = (args[0].clone(), *args[1:]) if facts.is_mutable else args
            discontinuities.run_discontinuous(self, func, name, given, kwargs)
            return func(*args, **kwargs)
        if (interval := find_domain(name, args)) is not None:
            clamped = self.clamp_to_domain(args[0], interval)
            args = (args[0].copy_(clamped) if facts.is_mutable else clamped, *args[1:])
        return self.run_primitive(func, name, args, kwargs)

    def _run_by_semantics(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> torch.Tensor | None:
        """Run an operator that the semantics define; None where this call is plain arithmetic."""
        blocks = self.semantics.decode(func, args, kwargs)
        if blocks is not None:
            self.dtype = blocks.dtype
            return self.dequantize(blocks)
        matmul = self.semantics.parse_matmul(func, args, kwargs)
        if matmul is not None:
            weight = self.dequantize(matmul.weight)
            with self:
                return torch.mm(matmul.activation.double(), weight.mT)
        product = self.semantics.parse_mx_product(func, args, kwargs)
        if product is None:
            return None
        activation = self.encode(product)
        with self, self.in_float32(product.exact_terms):
            return product.multiply(activation)

    @contextmanager
    def inside_compound(self, name: str) -> Iterator[None]:
        """Run the decomposition of a compound operation."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def round_constants(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with constants as a target may round them."""
        return args, kwargs

    def interpolate(self, func: Any, name: str, args: tuple[Any, ...]) -> torch.Tensor:
        """Run an interpolation that takes output sizes."""
        return func(*args)  # type: ignore[no-any-return]

    def limit_range(
        self, name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the result of the usual formula where an intermediate leaves the dtype's range."""
        return result

    def evaluate_discontinuous(
        self, function: Callable[..., torch.Tensor], *arguments: Any
    ) -> torch.Tensor:
        """Evaluate ``function``, and record its arguments and result."""
        result = function(*arguments)
        copies = tuple(x.clone() if isinstance(x, torch.Tensor) else x for x in arguments)
        self.record.discontinuities.append((copies, result))
        return result

    def divide(self, dividend: Any, divisor: Any) -> torch.Tensor:
        """Compute a quotient as the target rounds it."""
        with self:
            return super().divide(dividend, divisor)

    def compute_remainder(self, dividend: Any, divisor: Any, whole: torch.Tensor) -> torch.Tensor:
        """Compute ``dividend - whole * divisor`` as the target rounds it."""
        with self:
            return super().compute_remainder(dividend, divisor, whole)

    def clamp_to_domain(self, x: torch.Tensor, interval: tuple[float, float]) -> torch.Tensor:
        """Return a function's argument, and record which elements are in its domain."""
        in_domain = is_inside(x, interval)
        self.record.in_domain.append(None if bool(in_domain.all()) else in_domain)
        return x

    def run_attention(self, call: attention.AttentionCall) -> torch.Tensor:
        """Run attention with many scores."""
        result = attention.evaluate(call)
        tensors = (call.query, call.key, call.value)
        self.record.sums.add(attention.NAME, tensors, result.out, attention=result)
        return result.out

    def in_float32(self, exact_terms: int) -> AbstractContextManager[None]:
        """Run an operation in float32, independent of the program's dtype; its sums round once in
        ``exact_terms`` terms."""
        return nullcontext()

    def perturb_arguments(self, func: Any, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a function as its implementation may see them."""
        return args

    def run_primitive(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run one primitive operation on float64 arguments."""
        kind = self.get_rounding_kind(name, args, kwargs)
        is_invariant = self.invariant.contains((args, kwargs))
        out = compute(func, name, args, kwargs)
        if kind is RoundingKind.EXACT and is_invariant:
            self.invariant.add(out)
        elif kind is RoundingKind.REDUCTION and is_large(func, args):
            call = None if is_invariant else self.find_linear_call(func, name, args, kwargs)
            argument = None if call is None else call.argument
            self.record.sums.add(func, args, out, is_invariant=is_invariant, argument=argument)
        return out

    def get_rounding_kind(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> RoundingKind:
        """Return how an operator rounds. A cast rounds only to a dtype with fewer digits.

        Inside a compound operation every cast counts as rounding: targets may compute it by a
        formula without that cast.
        """
        if name in CASTS and not self.depth:
            source = args[-1] if name == "copy" else args[0]
            is_exact = is_wide(source) and is_widening(self.dtypes.get(source), self.dtype)
            return RoundingKind.EXACT if is_exact else RoundingKind.ROUNDED
        return get_rounding_kind(name, args, kwargs)

    def find_linear_call(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> LinearCall | None:
        """Return the call if it is linear in the only argument that differs between runs."""
        call = LinearCall.from_call(func, name, args, kwargs)
        return call if call is not None and self.invariant.contains(call.other_args) else None

    def quantize(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        """Quantize in float32, as eager does: a tie must round as it does in the program."""
        narrow = (x.float() if is_wide(x) else x for x in args[1:])
        return func(args[0].float(), *narrow, **kwargs)  # type: ignore[no-any-return]

    def dequantize(self, blocks: BlockQuantizedTensor) -> torch.Tensor:
        """Decode a block-quantized weight."""
        return blocks.values()

    def decode(self, name: str, args: tuple[Any, ...]) -> torch.Tensor:
        """Decode codes of a quantized graph; codes of its weights once for all runs."""
        if not self.invariant.contains(args):
            return dequantize(name, args)
        values = self.shared.decode_once((name, *args), lambda: dequantize(name, args))
        self.invariant.add(values)
        return values

    def encode(self, product: MxProduct) -> torch.Tensor:
        """Encode the activation of a product in an MX format to blocks, and decode it again."""
        self.record.encoded_activations.append(product.activation)
        return product.encode(product.activation).values()


def _find_written_storages(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[int | None]:
    """Yield the storages of the arguments that a call writes to."""
    for argument, value in zip_longest(func._schema.arguments, args):
        if argument.alias_info is not None and argument.alias_info.is_write:
            for item in leaves(kwargs.get(argument.name, value)):
                yield get_storage_id(item)


def get_storage_id(item: Any) -> int | None:
    """Return the identity of a tensor's storage; None for other items and layouts."""
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
    """Compute a two-pass variance as the operations of its decomposition."""
    over = list(range(x.dim())) if dims is None else list(dims)
    off = x - x.mean(over, keepdim=True)
    count = math.prod(x.shape[dim] for dim in over)
    return (off * off).sum(over) / max(0.0, count - (1 if correction is None else correction))


def is_wide(item: Any) -> bool:
    """Whether an argument is a float64 tensor."""
    return isinstance(item, torch.Tensor) and item.dtype == torch.float64


def _widen(item: Any) -> Any:
    """Convert floating tensors and dtypes to float64."""
    if isinstance(item, torch.Tensor):
        if item.dtype in (torch.float64, torch.complex128):
            return item
        return item.to(wide) if (wide := widen_dtype(item.dtype)) else item
    return _widen_dtype_argument(item)


def _widen_dtype_argument(item: Any) -> Any:
    """Convert dtypes to float64, and leave tensors: an in-place operation writes to them."""
    return widen_dtype(item) or item if isinstance(item, torch.dtype) else item


def widen_dtype(dtype: torch.dtype) -> torch.dtype | None:
    """Return the dtype in which the oracle represents a dtype; None where it stays the same."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else None
