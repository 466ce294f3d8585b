"""Operators with one input: the module stores the other operands.

Backends treat an operand that is a constant in another way than an input. They lower some operators
only then (XNNPACK's products), and fold, pack and permute the constant while they lower. Each case
of :mod:`suites.ops` with two or more inputs is tried with each of them as the only input, on the
targets where it has no limitation. Cases about inputs that are vectors of a norm (``norm_*``), not
finite, empty or zero divisors are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from harness import Case
from harness.model.limitation import find_limitation
from harness.record.target import Target
from suites.build import ModuleAndInputs
from suites.ops import binary, compare, create, index, matmul, norm, pool, reduce, shape
from suites.ops.limitations import LIMITATIONS

_SUITES = (binary, compare, create, index, matmul, norm, pool, reduce, shape)

# XNNPACK delegates these only where the weight is a constant.
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")

TARGETS = ("xnnpack:fp32", "tosa:fp", "mlx:fp32", "metal:fp32")
INTEGER_TARGETS = ("tosa:int", "xnnpack:int8")
"""Further targets of cases in float32. Quantizers observe an operand that is an input, and some
take a parameter in its place for a weight."""
_ALIKE = {"xnnpack:int8": ("cortex_m:int8",)}


class Stored(torch.nn.Module):
    """Calls a module on one input and on operands that it stores."""

    def __init__(
        self, module: torch.nn.Module, operands: tuple[torch.Tensor, ...], place: int
    ) -> None:
        super().__init__()
        self.module = module
        self.names = [f"operand_{number}" for number in range(len(operands))]
        self.place = place
        for number, operand in enumerate(operands):
            if number == place:
                continue
            if operand.is_floating_point():
                parameter = torch.nn.Parameter(operand, requires_grad=False)
                self.register_parameter(self.names[number], parameter)
            else:
                self.register_buffer(self.names[number], operand)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The module's result.

        Args:
            x: the operand at the place of the input.
        """
        operands = (
            x if number == self.place else getattr(self, name)
            for number, name in enumerate(self.names)
        )
        result: torch.Tensor = self.module(*operands)
        return result


def _is_limited(case: Case, target: str) -> bool:
    return find_limitation(LIMITATIONS, case, Target.parse(target)) is not None


def _store(build: ModuleAndInputs, place: int) -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    module, operands = build()
    return Stored(module, operands, place), (operands[place],)


def _vary(case: Case, build: ModuleAndInputs) -> Iterator[Case]:
    targets = (*TARGETS, *INTEGER_TARGETS) if "fp32" in case.tags else TARGETS
    spelled = [
        text
        for text in targets
        # Cases on xnnpack:int8 run on Cortex-M as well.
        if not any(_is_limited(case, each) for each in (text, *_ALIKE.get(text, ())))
    ]
    for place in range(len(build.inputs)):
        yield replace(
            case,
            name=f"stored/{case.name.replace('/', '_')}_{place}",
            build=lambda place=place: _store(build, place),
            tags=case.tags | {"stored"},
            targets="|".join(spelled),
            plain_targets="xnnpack:fp32" if case.op in _PRODUCTS else "",
            fallbacks={},
        )


CASES: list[Case] = [
    varied
    for suite in _SUITES
    for case in suite.CASES
    if isinstance(case.build, ModuleAndInputs)
    and len(case.build.inputs) > 1
    and not case.op.startswith("norm_")
    and not case.tags & {"nonfinite", "empty"}
    and not case.name.endswith("by_zero")
    and case.dynamic_shapes is None
    and case.calls is None
    for varied in _vary(case, case.build)
]
