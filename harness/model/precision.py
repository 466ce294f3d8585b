"""How a target rounds, as data: the input of the bounds in :mod:`harness.numerics.oracle`.

The model and its sources are in docs/numerics.md. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

RUNTIME_FLOAT32_SUMS = frozenset(
    "sum mean mm bmm _softmax _log_softmax _adaptive_avg_pool2d native_group_norm".split()
)
"""Operations whose 16-bit sums the kernels of ExecuTorch's runtime accumulate in float32, by ATen
name: op_sum.cpp, op_mean.cpp, op_softmax.cpp and op_log_softmax.cpp of kernels/portable since 1.4
(pytorch/executorch #20090), its op__adaptive_avg_pool2d.cpp and op_native_group_norm.cpp, and the
matrix products of kernels/optimized. Others, such as addmm, convolution, avg_pool2d,
native_layer_norm, var and cumsum, accumulate in the program's dtype."""


@dataclass(frozen=True)
class Precision:
    """The rounding model of a recipe. The unit roundoff ``u`` follows from the dtype that each
    operator computes in.

    Attributes:
        function_ulps: error of an elementary function in ULP of its result.
        functions: the same for single functions, by ATen name, where a source says otherwise.
        argument_roundings: backward error of an elementary function's argument, in ``u``.
        division_roundings: roundings in a division (2 for reciprocal and multiply).
        block_roundings: error, in ``u``, of each term of ``codes * scale + offset`` in a weight
            that is quantized in blocks; common to a block.
        scale_roundings: error, in ``u``, of the scale of such a block, code and offset alike, where
            a target stores scales in a coarser dtype.
        float32_sums: operations, by ATen name, that accumulate in float32 whatever their dtype and
            round once; a compound one stands for the sums that it is made of.
        running_means: variances are taken around a running mean (Welford): each element's
            deviation is from a mean that was rounded anew.
        step: error of one requantization in quantization steps.
        requantization: how far the number that a requantization rounds is from exact, in steps;
            0 where that is not known. Codes are then judged one by one only
            (:mod:`harness.numerics.formats.joint_errors`).
        fused_requantizations: operations, by ATen name, between which the target may leave out a
            requantization: an operand that another of them computed is then not rounded. The
            operands of a maximum or minimum are rounded to multiples of the smaller step.
        fused_clamps: operations, by ATen name, behind which the target may clamp before it
            requantizes: their result is then not rounded to the codes in front of the clamp.
        rounds_products_twice: the product of two values is first rounded to the fixed point of its
            multiplier ``m * 2**-k``, 1/2 <= m < 1, which is the product of their steps divided by
            the step of the result. The number that is rounded then is off by ``2**-(k + 1)`` steps.
        safety: factor on the spread of the perturbed runs.
        samples: number of perturbed runs, a multiple of eight, over which signs are balanced.
        arithmetic: the dtype that the target computes in where the program's is finer, such as
            ``"float16"``. The target rounds inputs, weights, constants and all results to it; the
            program's outputs keep their dtype. None for the program's own dtypes.
    """

    function_ulps: float = 4.0
    functions: Mapping[str, float] = field(default_factory=dict)
    argument_roundings: float = 1.0
    division_roundings: float = 1.0
    block_roundings: float = 1.0
    scale_roundings: float = 0.0
    float32_sums: frozenset[str] = frozenset()
    running_means: bool = False
    step: float = 1.0
    requantization: float = 0.0
    fused_requantizations: frozenset[str] = frozenset()
    fused_clamps: frozenset[str] = frozenset()
    rounds_products_twice: bool = False
    safety: float = 4.0
    samples: int = 8
    arithmetic: str | None = None

    def ulps(self, function: str) -> float:
        """Allowed error of one elementary function, in ULP."""
        return self.functions.get(function, self.function_ulps)

    def sums_wide(self, operation: str) -> bool:
        """Whether the sums of an operation accumulate in float32."""
        return operation in self.float32_sums


Question = tuple[str, ...]
"""A field of a rounding model, or a method and the operation that is its argument."""


class RecordingPrecision(Precision):
    """A rounding model that records each question and its answer.

    Models with the same answers give the same bounds: a program without elementary functions has
    the same bounds on every target that differs in functions only.

    Attributes:
        answers: the answers, by question.
    """

    answers: dict[Question, Any]
    _model: Precision

    def __init__(self, model: Precision) -> None:
        self.__dict__.update(_model=model, answers={})  # its base is frozen

    def __getattribute__(self, name: str) -> Any:
        """Record the read of a field."""
        if name in _FIELDS:
            return self._answer(name)
        return super().__getattribute__(name)

    def ulps(self, function: str) -> float:
        """As :meth:`Precision.ulps`."""
        return float(self._answer("ulps", function))

    def sums_wide(self, operation: str) -> bool:
        """As :meth:`Precision.sums_wide`."""
        return bool(self._answer("sums_wide", operation))

    def _answer(self, *question: str) -> Any:
        self.answers[question] = answer = answer_question(self._model, question)
        return answer


def answer_question(model: Precision, question: Question) -> Any:
    """Return a rounding model's answer to a question."""
    name, *operations = question
    found = getattr(model, name)
    return found(*operations) if operations else found


_FIELDS = frozenset(each.name for each in fields(Precision))
