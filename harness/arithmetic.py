"""Dispatch modes that run a module in float64: exactly, or perturbed as a target's arithmetic is.

docs/numerics.md derives the amplitudes; :mod:`harness.oracle` makes references of the runs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._library.custom_ops import _maybe_get_opdef
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from harness.block_scaled import BlockProduct, block_product
from harness.control_flow import run_dense
from harness.dequantize import Blocks, decode, dequantize, product
from harness.precision import Precision
from harness.rounding import ACTIVATIONS, COMPOUND, Kind, base_name, kind_of, reduction

# λ of the probabilistic summation bound (Higham & Mary 2019, theorem 2.4): the chance that
# one sum of a million terms exceeds λ√K·u is below 1e-7.
LAMBDA = 6.0

_FLOAT32_UNIT = 2.0**-24

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


class Float64Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Runs every operation in float64, whatever dtype its arguments or its ``dtype=`` have.

    Attributes:
        inputs: the program's inputs, widened; they stay alive while the mode is in use.
        encoded: every activation that was encoded to blocks, before it was, in order.
        running_means: whether the deviations of a variance err one by one.
    """

    running_means = False
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inputs: list[torch.Tensor] = []
        self.encoded: list[torch.Tensor] = []

    def see(self, dtype: torch.dtype) -> None:
        """A value of this dtype occurs in the program."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            return run_dense(func, args, kwargs or {}, self)
        name = base_name(func)
        if name.startswith("quantize_per"):
            return self.quantize(func, args, kwargs or {})
        if name.startswith("choose_qparams"):
            return func(args[0].float(), *args[1:], **(kwargs or {}))
        blocks = decode(func, args, kwargs or {})
        if blocks is not None:
            self.see(blocks.dtype)
            return self.dequantize(blocks)
        fused = product(func, args, kwargs or {})
        if fused is not None:
            weight = self.dequantize(fused.weight)
            with self:
                return torch.mm(fused.activation.double(), weight.mT)
        blocked = block_product(func, args, kwargs or {})
        if blocked is not None:
            activation = self.encode(blocked)
            with self, self.in_float32(blocked.exact_terms):
                return blocked.multiply(activation)
        for leaf in tree_leaves(kwargs):
            if isinstance(leaf, torch.dtype):
                self.see(leaf)
        kwargs = tree_map(_widen, kwargs or {})
        args = tuple(
            tree_map(lambda item: _widen(item, keep=func._schema.is_mutable), item) for item in args
        )
        if name.startswith("dequantize_per"):
            return dequantize(name, args)
        custom = _maybe_get_opdef(func)
        if custom is not None and func.namespace != "prims" and not func._schema.is_mutable:
            with self:  # written in Python: run as what it is made of
                return custom._init_fn(*args, **kwargs)
        if name in COMPOUND and func in decomposition_table:
            if name in ACTIVATIONS:
                args = self.blur(func, args)
            with self, self.inside(name):
                return decomposition_table[func](*args, **kwargs)
        if func.has_kernel_for_dispatch_key(_COMPOSITE) and not func._schema.is_mutable:
            # Reached from inside a decomposition, where autograd has not taken it apart.
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        if func is torch.ops.prims.var.default:
            if self.running_means:
                args = self.blur(func, args)
            with self:  # what decompositions end in for variances and norms
                return _variance(*args, **kwargs)
        if name in ("add", "sub", "rsub") and kwargs.get("alpha", 1) != 1:
            with self:  # with a factor they round twice
                left, right = args if name != "rsub" else args[::-1]
                scaled = right * kwargs["alpha"]
                result = left + scaled if name == "add" else left - scaled
                return left.copy_(result) if func._schema.is_mutable else result
        return self.operate(func, name, args, kwargs)

    def inside(self, name: str) -> AbstractContextManager[None]:
        """While a compound operation runs as its parts."""
        return nullcontext()

    def in_float32(self, exact_terms: int) -> AbstractContextManager[None]:
        """While an operation runs in float32, whatever the program's dtype, and rounds its sums
        once in so many terms."""
        return nullcontext()

    def blur(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a function as its implementation may see them."""
        return args

    def operate(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one primitive operation on float64 arguments."""
        return func(*args, **kwargs)

    def quantize(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        """Quantize as eager does, in float32: a tie must fall as it does in the program."""
        return func(args[0].float(), *args[1:], **kwargs)  # type: ignore[no-any-return]

    def dequantize(self, blocks: Blocks) -> torch.Tensor:
        """Decode a block-quantized weight."""
        return blocks.values()

    def encode(self, product: BlockProduct) -> torch.Tensor:
        """The activation of a product in an MX format, encoded to blocks and decoded again."""
        self.encoded.append(product.activation)
        return product.encode(product.activation).values()


class PerturbedMode(Float64Mode):  # type: ignore[no-untyped-call]
    """Float64 with every result perturbed by the amplitude of the target's rounding there.

    Requantization errors come in antithetic pairs: samples 2k and 2k+1 err in opposite
    directions, so that a value at the end of its range still moves in one of them.

    Args:
        precision: the rounding model of the target.
        seed: seeds the noise.
        sample: number of this run.
        exact: ``encoded`` of the run without noise; without it, every element that is encoded to
            blocks may be a step off.
    """

    def __init__(
        self,
        precision: Precision,
        seed: int,
        sample: int,
        exact: Sequence[torch.Tensor] = (),
    ) -> None:
        super().__init__()
        self._exact = exact
        self.precision = precision
        self.running_means = precision.running_means
        self.generator = torch.Generator().manual_seed(seed + sample)
        self.pair_generator = torch.Generator().manual_seed(seed + sample // 2)
        self.direction = 1.0 if sample % 2 == 0 else -1.0
        self.unit = 0.0
        self._wide = False
        self._exact_terms = 1

    def see(self, dtype: torch.dtype) -> None:
        """Results may be rounded to this dtype; the coarsest counts. One byte is a code: what
        rounds to it is in the graph."""
        if dtype.is_floating_point and dtype != torch.float64 and dtype.itemsize > 1:
            self.unit = max(self.unit, torch.finfo(dtype).eps / 2)

    def operate(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one primitive operation and perturb what it rounds."""
        kind = kind_of(name, args, kwargs)
        if kind is Kind.FUNCTION:
            args = self.blur(func, args)
        out = func(*args, **kwargs)
        if kind is Kind.EXACT:
            return out
        for index, tensor in enumerate(tree_leaves(out)):
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                size = self._amplitude(kind, func, name, index, tensor, args, kwargs)
                # In place, so that an operation that writes to its argument is perturbed there.
                tensor.add_(self._noise(size))
        return out

    def quantize(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        """Quantize, and err by a step as a requantization may."""
        out = super().quantize(func, args, kwargs)
        if not isinstance(args[1], torch.Tensor) and any(args[0] is x for x in self.inputs):
            return out  # the program quantizes its input with the same operator and scale
        low, high = _limits(base_name(func), args)
        return (out.double() + self._steps(out.shape)).clamp_(low, high).round_().to(out.dtype)

    def dequantize(self, blocks: Blocks) -> torch.Tensor:
        """Decode, and err in each block's scale and offset and in each result."""
        if blocks.offset is not None:
            rounding = self.precision.block_roundings * self.unit
            scale, offset = (
                part + self._noise(part.abs().mul_(rounding))
                for part in (blocks.scale, blocks.offset)
            )
            blocks = replace(blocks, scale=scale, offset=offset)
        values = blocks.values()
        return values.add_(self._noise(values.abs().mul_(self.unit)))

    def encode(self, product: BlockProduct) -> torch.Tensor:
        """Encode, and err by a step where the activation may be encoded otherwise."""
        number, given = len(self.encoded), product.activation
        self.encoded.append(given)
        encoded = product.encode(given)
        known = number < len(self._exact)
        off = (given - self._exact[number]).abs() if known else torch.full_like(given, math.inf)
        values = encoded.values()
        if not (off > 0).any():
            return values  # an input, or what moves, selects and compares made of it
        # An error as large as the bound itself would allow, twice.
        unsettled = product.unsettled(off.mul_(2 * self.precision.safety))
        steps = self._steps(values.shape).mul_(encoded.steps())
        return torch.where(unsettled, values + steps, values)

    def _steps(self, shape: torch.Size) -> torch.Tensor:
        """Errors of a requantization, in its steps; the samples of a pair differ in their sign."""
        signs = torch.empty(shape, dtype=torch.float64)
        signs.bernoulli_(0.5, generator=self.pair_generator).mul_(2).sub_(1)
        return signs.mul_(self.direction * self.precision.step)

    def _amplitude(
        self,
        kind: Kind,
        func: Any,
        name: str,
        index: int,
        out: torch.Tensor,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> torch.Tensor:
        size = out.abs()
        if kind is Kind.FUNCTION:
            return size.mul_(2 * self.unit * self.precision.ulps(name))
        if kind is Kind.DIVISION:
            return size.mul_(self.unit * self.precision.division_roundings)
        if kind is Kind.REDUCTION:
            length, magnitude = reduction(func, name, args, kwargs, out, index)
            length = -(-length // self._exact_terms)
            factor = min(float(length), LAMBDA * math.sqrt(length)) + 1
            if self._wide or name in self.precision.float32_sums:
                sum_unit = min(self.unit, _FLOAT32_UNIT)
                # A bias may be added to the rounded sum, which is no larger than both.
                bias = _bias(name, args, kwargs)
                if bias is not None:
                    size = size + bias.abs()
                return magnitude.mul(sum_unit * factor).add_(size.mul_(self.unit))
            return magnitude.mul(self.unit * factor)
        return size.mul_(self.unit)

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """While a compound operation runs as its parts: do its sums accumulate in float32?"""
        outer, self._wide = self._wide, self._wide or name in self.precision.float32_sums
        try:
            yield
        finally:
            self._wide = outer

    @contextmanager
    def in_float32(self, exact_terms: int) -> Iterator[None]:
        """While an operation runs in float32, whatever the program's dtype, and rounds its sums
        once in so many terms."""
        outer = self.unit
        self.unit, self._exact_terms = min(self.unit, _FLOAT32_UNIT), exact_terms
        try:
            yield
        finally:
            self.unit, self._exact_terms = outer, 1

    def blur(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """A backward error of each argument: what range reduction and composition cost."""
        rounding = self.precision.argument_roundings * self.unit

        def blurred(item: Any, written: bool) -> Any:
            if isinstance(item, torch.Tensor) and item.is_floating_point():
                noise = self._noise(item.abs().mul_(rounding))
                # The result goes to this very tensor, and the caller reads it there.
                return item.add_(noise) if written else item + noise
            return item

        writes = [
            argument.alias_info is not None and argument.alias_info.is_write
            for argument in func._schema.arguments
        ]
        return tuple(
            tree_map(functools.partial(blurred, written=written), item)
            for item, written in zip(args, writes, strict=False)
        )

    def _noise(self, size: torch.Tensor) -> torch.Tensor:
        """Noise of up to that size. Half of it at least, so that no error is left out; of
        varying size, so that equal errors along a chain do not cancel exactly."""
        noise = torch.empty(size.shape, dtype=torch.float64)
        noise.uniform_(-0.5, 0.5, generator=self.generator)
        noise.add_(torch.where(noise < 0, -0.5, 0.5)).mul_(size)
        # An infinity has no neighbourhood: perturbing it would make NaN.
        return noise.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)


def _bias(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """What is added to a sum of products, broadcasting with the result."""
    if name in ("addmm", "baddbmm"):
        added: torch.Tensor = args[0] * kwargs.get("beta", 1)
        return added
    bias: torch.Tensor | None = args[2] if name in ("linear", "convolution") and args[2:] else None
    if bias is None or name == "linear":
        return bias
    return bias.reshape(-1, *[1] * (args[1].dim() - 2))


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


def _widen(item: Any, keep: bool = False) -> Any:
    """Floating tensors and dtypes to float64; ``keep`` for operations that write in place."""
    if isinstance(item, torch.Tensor):
        if item.is_floating_point() and item.dtype != torch.float64 and not keep:
            return item.double()
        return item
    if isinstance(item, torch.dtype) and item.is_floating_point:
        return torch.float64
    return item


def _limits(name: str, args: tuple[Any, ...]) -> tuple[int, int]:
    at = 4 if "per_channel" in name else 3
    return int(args[at]), int(args[at + 1])
