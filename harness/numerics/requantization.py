"""Runs in which only numbers near a tie are requantized to a neighbouring code.

:mod:`harness.numerics.formats.joint_errors` computes the limit of an output's errors together from
them.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from harness.model.trees import leaves, map_leaves
from harness.numerics.dtypes import unit_roundoff
from harness.numerics.error_model.rules import RoundingKind
from harness.numerics.error_model.terms import Args, Kwargs
from harness.numerics.formats.quantization_steps import get_code_range, get_scales
from harness.numerics.kernels.products import compute
from harness.numerics.operators import Operator, OperatorMode
from harness.numerics.perturbation import PerturbedMode


class RequantizedMode(PerturbedMode):  # type: ignore[no-untyped-call]
    """A float64 run in which only numbers near a tie are requantized to a neighbouring code.

    Between ``Precision.fused_requantizations``, and before a clamp behind one of
    ``Precision.fused_clamps``, the first run leaves out every requantization that a target may
    leave out, the second none, and the others some.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # By dequantized value, the step that it was rounded to.
        self._steps: MutableMapping[torch.Tensor, float] = WeakIdKeyDictionary()
        # By product of two dequantized values, the product of their steps.
        self._product_steps: MutableMapping[torch.Tensor, float] = WeakIdKeyDictionary()
        # By what follows from a fused operation, its value without the roundings since then; None
        # for the value itself.
        self._unrounded: MutableMapping[torch.Tensor, torch.Tensor | None] = WeakIdKeyDictionary()

    def quantize(self, operator: Operator, args: Args, kwargs: Kwargs) -> torch.Tensor:
        """Quantize numbers that are off by ``Precision.requantization`` steps."""
        scale = get_scales(operator.name, args)
        if scale is None:
            return super().quantize(operator, args, kwargs)
        if self.is_quantized_by_program(operator, args):
            return OperatorMode.quantize(self, operator, args, kwargs)
        self.has_requantized = True
        share = max(self._get_share(args[0].numel()), self._get_first_rounding(args[0], scale))
        number = args[0].double()
        # The roundings of the program in its own dtype, which integer kernels do without.
        finite = number.abs().nan_to_num(nan=0.0, posinf=0.0)
        rounding = 2 * unit_roundoff(self.dtypes.get(args[0])) * finite
        moved = number + self._draw_directions(number.shape) * (share * scale + rounding)
        codes = OperatorMode.quantize(self, operator, (moved, *args[1:]), kwargs)
        if args[0] in self._unrounded and isinstance(scale, float):
            ends = [(code - args[2]) * scale for code in get_code_range(operator.name, args)]
            self._unrounded[codes] = self._get_unrounded(args[0]).double().clamp(*ends)
        return codes

    def begin_call(self) -> None:
        """Begin a call: what the last call stored in a buffer was rounded."""
        super().begin_call()
        self._unrounded.clear()

    def _draw_directions(self, shape: torch.Size) -> torch.Tensor:
        """Return 1 where numbers of a tensor are too large in this run, -1 where too small.

        A target rounds all ties one way, mostly up, and the graph to even codes.
        """
        if self._sample < len(_DIRECTIONS):
            return torch.full((), _DIRECTIONS[self._sample], dtype=torch.float64)
        return self.noise.draw_signs(shape)

    def _get_share(self, elements: int) -> float:
        """Return how far numbers of a tensor are from exact, in steps.

        In a small tensor the distance is large enough to change about one code, because the whole
        output may depend on a few codes, and the target may round one of them the other way.
        """
        return max(self.precision.requantization, 0.5 / max(1, elements))

    def _get_first_rounding(self, number: torch.Tensor, scale: torch.Tensor | float) -> float:
        """Return the error of a product that the target rounds twice, in steps of the result."""
        steps = self._product_steps.get(number)
        if (
            steps is None
            or not self.precision.rounds_products_twice
            or not isinstance(scale, float)
        ):
            return 0.0
        bits = -math.frexp(steps / scale)[1]
        return 2.0 ** -(bits + 1) if bits > 0 else 0.0

    def decode(self, operator: Operator, args: Args) -> torch.Tensor:
        """Decode, and remember the step of the codes."""
        values = super().decode(operator, args)
        if isinstance(args[1], float):
            self._steps[values] = args[1]
        if args[0] in self._unrounded:
            self._unrounded[values] = self._unrounded[args[0]]
        return values

    def run_primitive(self, operator: Operator, args: Args, kwargs: Kwargs) -> Any:
        """Run one operation, on numbers that the target did not round where it fuses that."""
        name = operator.name
        sums, layers = self.precision.fused_requantizations, self.precision.fused_clamps
        if name in sums or (layers and name in _CLAMPS):
            args = self._fuse(name, args)
        out = super().run_primitive(operator, args, kwargs)
        if name in sums or name in layers:
            if isinstance(out, torch.Tensor):
                self._unrounded[out] = None
            return out
        if name == "mul" and isinstance(out, torch.Tensor):
            tensors = [item for item in args if isinstance(item, torch.Tensor)]
            factors = [self._steps[item] for item in tensors if item in self._steps]
            if len(factors) == len(args):
                self._product_steps[out] = math.prod(factors)
        if operator.is_mutable:
            self._note_write(name, args)
            return out
        given = (item for item in leaves(args) if isinstance(item, torch.Tensor))
        if (
            isinstance(out, torch.Tensor)
            and any(item in self._unrounded for item in given)
            and self.get_rounding_kind(operator, args, kwargs) is RoundingKind.EXACT
        ):
            unrounded = map_leaves(self._get_unrounded, args)
            self._unrounded[out] = compute(operator.func, name, unrounded, kwargs)
        return out

    def _note_write(self, name: str, args: Args) -> None:
        """Forget the unrounded value of a tensor that an operator wrote to; one that the operator
        copied is known."""
        for written in leaves(args[:1]):
            if isinstance(written, torch.Tensor):
                self._unrounded.pop(written, None)
        if name == "copy" and args[1] in self._unrounded and args[1].shape == args[0].shape:
            self._unrounded[args[0]] = self._unrounded[args[1]]

    def _get_unrounded(self, item: Any) -> Any:
        found = self._unrounded.get(item) if isinstance(item, torch.Tensor) else None
        return item if found is None else found

    def _fuse(self, name: str, args: Args) -> Args:
        """Return the operands as the target has them, in the runs in which it fuses them."""
        fuses_some = self._sample > 1 and float(self.noise.draw_signs(torch.Size([1]))) > 0
        if not (self._sample == 0 or fuses_some):
            return args
        if name not in _COMPARED:
            return tuple(map(self._get_unrounded, args))
        steps = [self._steps[item] for item in args if item in self._steps]
        if len(steps) < len(args):
            return args
        # Both are brought to the smaller step.
        return tuple((item / min(steps)).round_() * min(steps) for item in args)


# In the first runs all numbers are off in one direction.
_DIRECTIONS = (1.0, 1.0, -1.0)
_CLAMPS = frozenset("clamp clamp_min clamp_max hardtanh relu relu6".split())
# Operations that compare codes of one scale.
_COMPARED = frozenset(("maximum", "minimum"))
