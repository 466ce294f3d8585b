"""Define operators that are not plain tensor arithmetic; a recipe adds its backend's operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness.numerics.formats.block_scaled import MxProduct
from harness.numerics.formats.dequantize import DECODERS, BlockQuantizedTensor, QuantizedMatmul
from harness.vendors.torch import OpOverload, _AutoDispatchBelowAutograd


@dataclass(frozen=True)
class OperatorSemantics:
    """Definitions of operators by name, ``namespace::name``.

    Each entry is called with the arguments of its operator.

    Attributes:
        decoders: operators that decode a block-quantized weight.
        matmuls: operators that multiply with a weight that they decode themselves.
        mx_products: operators that multiply in an MX format and encode an operand themselves.
    """

    decoders: Mapping[str, Callable[..., BlockQuantizedTensor]] = field(default_factory=dict)
    matmuls: Mapping[str, Callable[..., QuantizedMatmul]] = field(default_factory=dict)
    mx_products: Mapping[str, Callable[..., MxProduct]] = field(default_factory=dict)

    def decode(
        self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> BlockQuantizedTensor | None:
        """Return the blocks that an operator decodes, or None for another operator.

        Args:
            operator: the overload that is called.
            args: its arguments.
            kwargs: its keyword arguments.
        """
        decoder = self.find_decoder(operator)
        if decoder is None:
            return None
        given = dict(kwargs)
        if "output_dtype" in given:
            given["dtype"] = given.pop("output_dtype")
        return decoder(*args, **given)

    def find_decoder(self, operator: Any) -> Callable[..., BlockQuantizedTensor] | None:
        """Return the definition of a decoding operator, or None for another callable."""
        is_overload = isinstance(operator, OpOverload)
        return self.decoders.get(operator._schema.name) if is_overload else None

    def names(self) -> frozenset[str]:
        """Return the names of the operators that are defined here."""
        return frozenset((*self.decoders, *self.matmuls, *self.mx_products))

    def parse_matmul(
        self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> QuantizedMatmul | None:
        """Return the operands of a call that decodes its weight itself, or None for others."""
        definition = self.matmuls.get(operator._schema.name)
        return None if definition is None else definition(*args, **kwargs)

    def parse_mx_product(
        self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> MxProduct | None:
        """Return the operands of a call that multiplies in an MX format, or None for others.

        Raises:
            ValueError: the element format does not follow from the arguments.
        """
        definition = self.mx_products.get(operator._schema.name)
        return None if definition is None else definition(*args, **kwargs)


GENERIC_SEMANTICS = OperatorSemantics(decoders=DECODERS)
"""torchao's decoding operators, which several backends support."""


DEFAULT_EPSILON = torch.finfo(torch.float32).eps
"""The default epsilon of an rms norm: float32's, for float32 and all narrower dtypes."""

_RMS_NORMS = (
    torch.nn.functional.rms_norm,
    torch.rms_norm,
    torch.ops.aten.rms_norm.default,
)


# torchao's operators for activations; the modes run them in float32, as the program does.
_ENCODERS = frozenset(("torchao::quantize_affine", "torchao::choose_qparams_affine"))


def _encodes(operator: Any) -> bool:
    is_overload = isinstance(operator, OpOverload)
    return is_overload and operator._schema.name in _ENCODERS


class PreserveOperators(TorchFunctionMode):
    """Passes operators on to a dispatch mode that runs them in float64 by their definition.

    Encoding and decoding operators stay whole; otherwise the dispatcher would decompose the
    composite ones. A default epsilon, which depends on the dtype, is the program's.

    Args:
        semantics: defines the operators that decode.
    """

    def __init__(self, semantics: OperatorSemantics) -> None:
        super().__init__()
        self._semantics = semantics
        self._plain: set[Any] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in self._plain:
            return func(*args, **kwargs)
        if func in _RMS_NORMS and len(args) < 4 and kwargs.get("eps") is None:
            return func(*args, **{**kwargs, "eps": DEFAULT_EPSILON})
        if func in _RMS_NORMS and len(args) == 4 and args[3] is None:
            return func(*args[:3], DEFAULT_EPSILON, **kwargs)
        if self._semantics.find_decoder(func) is None and not _encodes(func):
            if func not in _RMS_NORMS:
                self._plain.add(func)
            return func(*args, **kwargs)
        with _AutoDispatchBelowAutograd():
            return func(*args, **kwargs)
