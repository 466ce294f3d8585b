"""Products of two tensors in an MX format whose operator encodes the first of them itself.

Recipes declare these operators (:mod:`~harness.numerics.formats.semantics`), and
:mod:`harness.numerics.arithmetic` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from harness.numerics.formats.microscaling import Element, Encoded, ScaleRule, encode


@dataclass(frozen=True)
class MxProduct:
    """A call of an operator that multiplies in an MX format.

    Attributes:
        activation: the operand that the operator encodes; float64.
        element: element format of both operands.
        axis: axis of the activation along which its blocks lie.
        block: number of neighbours that share a scale.
        rule: how the scale of a block is chosen.
        multiply: takes the decoded activation, float64, and returns the result; calls ATen
            operations. Its sums are in float32 where the operator runs.
    """

    activation: torch.Tensor
    element: Element
    axis: int
    block: int
    rule: ScaleRule
    multiply: Callable[[torch.Tensor], torch.Tensor]

    @property
    def exact_terms(self) -> int:
        """Number of neighbouring products that float32 sums without rounding: a block's or one.

        The products of a block are summed before the scales are applied. They are multiples of
        the square of the smallest element, and exact while the greatest sum is below 2^24 of those.
        """
        smallest = float(self.element.table[1])
        greatest = self.block * (self.element.largest / smallest) ** 2
        return self.block if greatest <= 2**24 else 1

    def encode(self, activation: torch.Tensor) -> Encoded:
        """Encode an activation as the operator does, from float32."""
        return encode(activation.float(), self.element, self.rule, self.axis, self.block)

    def find_unstable(self, reach: torch.Tensor) -> torch.Tensor:
        """Mark elements whose encoding changes when magnitudes move by ``reach``.

        All magnitudes move at once, so that the scale of a block moves with them.

        Args:
            reach: float64, the shape of the activation, not negative.

        Returns:
            bool, the shape of the activation.
        """
        sign, magnitude = self.activation.sign(), self.activation.abs()
        ends = (magnitude + reach, (magnitude - reach).clamp_(min=0.0))
        outer, inner = (self.encode(sign * end).values() for end in ends)
        return outer != inner
