"""Limitations of the MLX delegate."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation
from suites.mlx.limitations import LIMITATIONS as KNOWN
from suites.models.limitations import LIMITATIONS as MODELS
from suites.opinfo.limitations.tables import ops_limitation, sample_globs
from suites.ops.limitations import LIMITATIONS as OPS

_MLX_OPS = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/ops.py"

_AXES = (
    "ATen accepts dimensions 0 and -1 for a 0-D tensor. The handler passes the dimension on to "
    "mlx, where a 0-D tensor has none, and the runtime raises an error. Workaround: "
    "`x.reshape(1)` before it."
)
_PERMUTED = "unfold/im2col"
MLX: list[Limitation] = [
    copy_limitation(KNOWN, "mlx:fp32", "scaled_dot_product_attention/causal_more_keys",
             sample_globs("scaled_dot_product_attention 0")),
    copy_limitation(KNOWN, "mlx:fp32", "scatter_add/part_of_the_columns",
                    sample_globs("scatter_add 1 3")),
    copy_limitation(MODELS, "mlx:fp32", "sam2/tiny", sample_globs("interpolate-bicubic *")),
    ops_limitation("mlx:fp32", "convolution/1d_unbatched",
             "conv1d 1 3; conv2d 3; conv_transpose2d 1"),
    ops_limitation("mlx:fp32", _PERMUTED, "interpolate-nearest-exact *; interpolate-trilinear *"),
    copy_limitation(
        OPS,
        "portable:fp32",
        "convolution/3d",
        sample_globs("conv3d *; conv_transpose3d 0 2"),
        target="mlx:*",
        reason="MLX has no 3-D convolution with groups or without a batch. The portable kernel "
        "does not run it either: check_convolution_args "
        "(kernels/portable/cpu/util/kernel_ops_util.cpp) accepts inputs of rank 3 and 4 only.",
    ),
    *(
        Limitation(
            target="mlx:*",
            case=sample_globs(cases),
            reason=reason,
            link=_MLX_OPS,
            stage="run",
            error=error,
        )
        for cases, error, reason in [
            ("amin 2; argmax 2; argmin 1 3; sum 0", "Invalid axis", _AXES),
            ("cumsum 2", "out of bounds for array with 0 dimensions", _AXES),
            ("log_softmax 1; softmax 2", "Received non-empty axes", _AXES),
            ("index_select 2", "out of range for 0 dimensions", _AXES),
            ("cat 3", "a dimension of size 0",
             "The concatenation of empty tensors is folded to a constant, and FullNode cannot "
             "create a tensor without elements."),
        ]
    ),
]  # fmt: skip
