"""Limitations of operators on tensors with dynamic sizes."""

from __future__ import annotations

from harness import Limitation, Status
from suites.crossings.build import match_rows
from suites.known import copy_limitation
from suites.metal.limitations import LIMITATIONS as METAL
from suites.mlx.limitations import LIMITATIONS as MLX
from suites.models.limitations import LIMITATIONS as MODELS
from suites.ops.limitations import LIMITATIONS as OPS

_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"


def _cases(operators: str, rest: str = "*") -> str:
    """Globs over the cases of operators."""
    return match_rows("dynamic", operators, rest)


_METAL = [
    copy_limitation(
        METAL,
        "metal:fp32",
        "cat/ten_by_columns",
        _cases("cat") + "|" + _cases("catrow", "*_again"),
    ),
    copy_limitation(
        METAL, "metal:fp32", "scaled_dot_product_attention/three_dimensions", _cases("attention")
    ),
    copy_limitation(OPS, "metal:fp32", "einsum/contract", _cases("matmul")),
    copy_limitation(OPS, "metal:fp32", "convolution/transposed_1d", _cases("deconv")),
    copy_limitation(OPS, "metal:fp32", "cumsum/dim", _cases("cumsum")),
]

DYNAMIC: list[Limitation] = [
    Limitation(
        target="portable:fp32|xnnpack:fp32",
        case=_cases("attention interpolate", "last_*"),
        reason="The decompositions compute a float from a dynamic size by torch.sym_float or "
        "torch.sym_sqrt, and the verifier of edge programs accepts no function but alloc. "
        "Workaround: a fixed size for this dimension.",
        link=_SOURCE + "exir/verification/verifier.py",
        stage="lower",
        error="AssertionError",
    ),
    copy_limitation(OPS, "xnnpack:fp32", "convolution/1d_twice", _cases("conv deconv", "*_again")),
    Limitation(
        target="mlx:fp32",
        case=_cases("attention", "last_*"),
        reason="SDPAHandler computes the scale from the size of the last dimension in the example, "
        "also where that size is dynamic: results are silently wrong for others. Workaround: give "
        "`scale`.",
        link=_SOURCE + "backends/mlx/patterns.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    copy_limitation(
        MLX, "mlx:fp32", "mul/size_to_a_power", _cases("interpolate", "last_*"), target="mlx:fp32"
    ),
    copy_limitation(
        MODELS,
        "mlx:fp32",
        "resnet/dynamic",
        _cases("avgpool maxpool"),
        target="mlx:fp32",
        reason="_make_pool_handler (ops.py) emits an AsStridedNode with the sizes and strides of "
        "the example as literals, or a ReshapeNode where windows do not overlap, although a size "
        "is dynamic.",
        or_fails=(("run", "(ReshapeNode): [reshape] Cannot reshape"),),
    ),
    *_METAL,
]
