"""What operators that are no arithmetic of tensors mean; a recipe adds those of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness.numerics.formats.block_scaled import BlockProduct
from harness.numerics.formats.dequantize import DECODERS, Blocks, Product
from harness.vendors.torch import OpOverload, _AutoDispatchBelowAutograd


@dataclass(frozen=True)
class Semantics:
    """The meaning of operators by their names, ``namespace::name``; each entry takes the arguments
    of its operator.

    Attributes:
        decoders: operators that decode a block-quantized weight.
        products: operators that multiply with a weight that they decode themselves.
        block_products: operators that multiply in an MX format and encode an operand themselves.
    """

    decoders: Mapping[str, Callable[..., Blocks]] = field(default_factory=dict)
    products: Mapping[str, Callable[..., Product]] = field(default_factory=dict)
    block_products: Mapping[str, Callable[..., BlockProduct]] = field(default_factory=dict)

    def decode(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Blocks | None:
        """The blocks that an operator decodes, or None for another operator.

        Args:
            operator: the overload that is called.
            args: its arguments.
            kwargs: its arguments by name.
        """
        decoder = self.decoder(operator)
        if decoder is None:
            return None
        given = dict(kwargs)
        if "output_dtype" in given:
            given["dtype"] = given.pop("output_dtype")
        return decoder(*args, **given)

    def decoder(self, operator: Any) -> Callable[..., Blocks] | None:
        """What takes the arguments of a decoding operator, or None for another callable."""
        is_overload = isinstance(operator, OpOverload)
        return self.decoders.get(operator._schema.name) if is_overload else None

    def names(self) -> frozenset[str]:
        """The operators that it has a meaning for."""
        return frozenset((*self.decoders, *self.products, *self.block_products))

    def product(
        self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Product | None:
        """What an operator multiplies that decodes its weight itself, or None for another."""
        meaning = self.products.get(operator._schema.name)
        return None if meaning is None else meaning(*args, **kwargs)

    def block_product(
        self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> BlockProduct | None:
        """What a call multiplies in an MX format, or None for another operator.

        Raises:
            ValueError: the element format does not follow from the arguments.
        """
        meaning = self.block_products.get(operator._schema.name)
        return None if meaning is None else meaning(*args, **kwargs)


GENERIC = Semantics(decoders=DECODERS)
"""torchao's decoding operators, which several backends take."""


DEFAULT_EPSILON = torch.finfo(torch.float32).eps
"""What an rms norm adds where it is not told: float32's for it and for all narrower dtypes."""

_RMS_NORMS = (
    torch.nn.functional.rms_norm,
    torch.rms_norm,
    torch.ops.aten.rms_norm.default,
)


# torchao's for activations; the modes run them in float32, as the program does.
_ENCODERS = frozenset(("torchao::quantize_affine", "torchao::choose_qparams_affine"))


def _encodes(operator: Any) -> bool:
    is_overload = isinstance(operator, OpOverload)
    return is_overload and operator._schema.name in _ENCODERS


class PreserveMeaning(TorchFunctionMode):
    """Hands operators to a dispatch mode that runs them in float64 as they are meant.

    Operators that encode and decode go undecomposed, as the dispatcher would take the composite
    ones apart first; and an epsilon that follows from the dtype is the program's.

    Args:
        semantics: which operators decode.
    """

    def __init__(self, semantics: Semantics) -> None:
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
        if self._semantics.decoder(func) is None and not _encodes(func):
            if func not in _RMS_NORMS:
                self._plain.add(func)
            return func(*args, **kwargs)
        with _AutoDispatchBelowAutograd():
            return func(*args, **kwargs)
