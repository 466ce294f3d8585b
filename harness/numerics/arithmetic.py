"""The dispatch mode that runs a module in float64, whatever its dtypes.

:mod:`harness.numerics.perturbation` has the mode that adds a target's rounding errors;
:mod:`harness.numerics.oracle` computes references from the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import torch

from harness.model.trees import leaves, map_leaves
from harness.numerics.dtypes import EagerDtypes, is_widening, widen_dtype
from harness.numerics.error_model.ranges import Interval, is_inside
from harness.numerics.error_model.rules import RoundingKind
from harness.numerics.error_model.terms import Args, Kwargs
from harness.numerics.formats.block_scaled import MxProduct
from harness.numerics.formats.dequantize import BlockQuantizedTensor, dequantize
from harness.numerics.formats.semantics import (
    GENERIC_SEMANTICS,
    OperatorSemantics,
    PreserveOperators,
)
from harness.numerics.kernels.control_flow import run_dense
from harness.numerics.kernels.products import compute
from harness.numerics.large_tensors import attention
from harness.numerics.large_tensors.attention import AttentionCall
from harness.numerics.large_tensors.deviations import LinearCall
from harness.numerics.large_tensors.shared_sums import InvariantTensors, is_large
from harness.numerics.operators import Operator, OperatorMode, get_operator, is_wide
from harness.numerics.pairing import NodeNames, RunRecord
from harness.vendors.torch import HigherOrderOperator


class Float64Mode(OperatorMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Runs every operation in float64, whatever dtype its arguments or its ``dtype=`` have.

    Args:
        semantics: meaning of operators that are not plain tensor arithmetic.

    Attributes:
        inputs: the program's inputs in float64; they stay alive while the mode is in use.
        invariant: tensors that are the same in every run.
        nodes: names the operations of this run.
        record: intermediates of this run.
        shared: large sums and decoded weights that the runs share.
        written: storages that operators wrote to.
        dtypes: the dtype of each tensor in eager; also the function mode that reports it.
        dtype: dtype in which the current operator computes in eager. Parts of a compound operator,
            or of one written in Python, have the dtype of the whole.
    """

    supports_higher_order_operators = True

    def __init__(self, semantics: OperatorSemantics = GENERIC_SEMANTICS) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.semantics = semantics
        self._defined_operators = semantics.names()
        self.inputs: list[torch.Tensor] = []
        self.invariant = InvariantTensors()
        self.nodes = NodeNames()
        self.record = RunRecord()
        self.shared = self.record.sums
        self.written: set[int | None] = set()
        self.dtypes = EagerDtypes(torch.get_default_dtype())
        self.dtype = torch.get_default_dtype()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Prevent torch from wrapping every call for Dynamo, which never runs under this mode."""
        return False

    def round_given(self, tree: Any) -> Any:
        """Return state and inputs in float64, as the target has them when a run starts."""
        self.invariant.add(tree)
        return tree

    def begin_call(self) -> None:
        """Begin a call of the program. Buffers have the values that the last call stored."""

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
        operator, kwargs = get_operator(func), kwargs or {}
        if operator.is_mutable:
            self.written |= {*_find_written_storages(func, args, kwargs)}
        outer = self.dtype
        if not self.depth and not self.is_custom:
            self.dtype = self.dtypes.get_result_dtype(func, args, kwargs)
        try:
            result = self._run(operator, args, kwargs)
            if not operator.is_mutable:
                self.dtypes.mark(result, self.dtype)
            return result
        finally:
            self.dtype = outer

    def _run(self, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
        """Run an operator in float64."""
        if operator.schema in self._defined_operators:
            defined = self._run_by_semantics(operator.func, args, kwargs)
            if defined is not None:
                return defined
        if not operator.takes_narrow:
            args, kwargs = self.round_constants(operator, args, kwargs)
            kwargs = map_leaves(_widen, kwargs) if kwargs else kwargs
            args = map_leaves(_widen_dtype_argument if operator.is_mutable else _widen, args)
        return operator.run(self, args, kwargs)

    def _run_by_semantics(self, func: Any, args: Args, kwargs: Kwargs) -> torch.Tensor | None:
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
        activation = self.encode(func, product)
        with self, self.in_float32(product.exact_terms):
            return product.multiply(activation)

    def evaluate_discontinuous(
        self, func: Any, function: Callable[..., torch.Tensor], *arguments: Any
    ) -> torch.Tensor:
        """Evaluate ``function``, and record its arguments and result."""
        result = function(*arguments)
        copies = tuple(x.clone() if isinstance(x, torch.Tensor) else x for x in arguments)
        self.record.discontinuities[self.nodes.add(func)] = copies, result
        return result

    def clamp_to_domain(
        self, operator: Operator, x: torch.Tensor, interval: Interval
    ) -> torch.Tensor:
        """Return a function's argument, and record which elements are in its domain."""
        in_domain = is_inside(x, interval)
        node = self.nodes.add(operator.func)
        self.record.in_domain[node] = None if bool(in_domain.all()) else in_domain
        return x

    def run_attention(self, operator: Operator, call: AttentionCall) -> torch.Tensor:
        """Run attention with many scores."""
        result = attention.evaluate(call)
        tensors = (call.query, call.key, call.value)
        self.record.sums.add(self.nodes.add(operator.func), tensors, result.out, attention=result)
        return result.out

    def run_primitive(self, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
        """Run one primitive operation on float64 arguments."""
        kind = self.get_rounding_kind(operator, args, kwargs)
        is_invariant = self.invariant.contains((args, kwargs))
        out = compute(operator.func, operator.name, args, kwargs)
        if kind is RoundingKind.EXACT and is_invariant:
            self.invariant.add(out)
        elif kind is RoundingKind.REDUCTION and is_large(operator.func, args):
            call = None if is_invariant else self.find_linear_call(operator, args, kwargs)
            self.record.sums.add(
                self.nodes.add(operator.func),
                args,
                out,
                is_invariant=is_invariant,
                argument=None if call is None else call.argument,
            )
        return out

    def get_rounding_kind(self, operator: Operator, args: Args, kwargs: Kwargs) -> RoundingKind:
        """Return how an operator rounds. A cast rounds only to a dtype with fewer digits.

        Inside a compound operation every cast counts as rounding: targets may compute it by a
        formula without that cast.
        """
        if operator.rule.is_cast and not self.depth:
            source = args[-1] if operator.name == "copy" else args[0]
            is_exact = is_wide(source) and is_widening(self.dtypes.get(source), self.dtype)
            return RoundingKind.EXACT if is_exact else RoundingKind.ROUNDED
        return operator.rule.get_kind(args, kwargs)

    def find_linear_call(self, operator: Operator, args: Args, kwargs: Kwargs) -> LinearCall | None:
        """Return the call if it is linear in the only argument that differs between runs."""
        call = LinearCall.from_call(operator.func, operator.name, args, kwargs)
        return call if call is not None and self.invariant.contains(call.other_args) else None

    def dequantize(self, blocks: BlockQuantizedTensor) -> torch.Tensor:
        """Decode a block-quantized weight."""
        return blocks.values()

    def quantize(self, operator: Operator, args: Args, kwargs: Kwargs) -> torch.Tensor:
        """Quantize, and record the numbers."""
        codes = super().quantize(operator, args, kwargs)
        self.record.quantized[codes] = args[0]
        return codes

    def decode(self, operator: Operator, args: Args) -> torch.Tensor:
        """Decode codes of a quantized graph; codes of its weights once for all runs."""
        name = operator.name
        if not self.invariant.contains(args):
            values = dequantize(name, args)
            if args[0] in self.record.quantized:
                self.record.quantized[values] = self.record.quantized[args[0]]
            return values
        values = self.shared.decode_once((name, *args), lambda: dequantize(name, args))
        self.invariant.add(values)
        return values

    def encode(self, func: Any, product: MxProduct) -> torch.Tensor:
        """Encode the activation of a product in an MX format to blocks, and decode it again."""
        self.record.encoded_activations[self.nodes.add(func)] = product.activation
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
