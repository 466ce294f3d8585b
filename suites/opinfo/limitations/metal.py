"""Limitations of Metal AOTI, and of Inductor's code for it."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation
from suites.metal.limitations import LIMITATIONS as KNOWN
from suites.models.limitations import LIMITATIONS as MODELS
from suites.opinfo.limitations.tables import ops_limitation, sample_globs
from suites.ops.limitations import LIMITATIONS as OPS

_INDUCTOR = "https://github.com/pytorch/pytorch/tree/v2.13.0/torch/_inductor"

METAL: list[Limitation] = [
    copy_limitation(KNOWN, "metal:fp32", "mm/plus_number",
                    sample_globs("addmm-decomposed 0; addmm 3")),
    copy_limitation(KNOWN, "metal:fp32", "mm/second_rows_of_result",
             sample_globs("select 1 3; split_with_sizes 1")),
    copy_limitation(KNOWN, "metal:fp32", "scaled_dot_product_attention/three_dimensions",
             sample_globs("scaled_dot_product_attention 2")),
    copy_limitation(
        MODELS,
        "metal:fp32",
        "rt_detr/night",
        sample_globs("full_like 1 2; log_softmax-with_dtype *; softmax-with_dtype *; "
                     "softmin-with_dtype 1 2 3"),
        reason="The program requests float64, which Metal does not have. MetalPartitioner "
        "delegates the node anyway, and Inductor's MPS code raises KeyError for the dtype. "
        "Workaround: request float32.",
    ),
    ops_limitation(
        "metal:fp32", "mm/empty_inner_dim",
        "acos 0; acosh 2; adaptive_avg_pool1d 2; addmm-decomposed 2; addmm 0; atan2 0; "
        "batch_norm 0; cat 3; celu 2; cos 2; cosh 1; elu 2; exp 0; fill 2; flip 0 2; gather 3; "
        "group_norm 3; hardtanh 0; layer_norm 1; le 0; linear 2; log 1; log10 0; log2 1; "
        "logical_not 0; logical_or 0; logical_xor 0; lt 0; mm 1 2; native_group_norm 0 1; "
        "native_layer_norm 2; ne 2; pad-circular 2 3; pad-constant 0 3; pad-reflect 2; "
        "pixel_shuffle 0 1 2; pow 1; prod 2; reciprocal 2; remainder 2; repeat 0 1 2; rsqrt 0; "
        "sigmoid 1; silu 1; softmin-with_dtype 0; split_with_sizes 0; stack 3; unbind 0; "
        "var-unbiased 2 3",
    ),
    ops_limitation("metal:fp32", "convolution/2d", "conv2d *; conv_transpose2d 0 1"),
    ops_limitation("metal:fp32", "convolution/3d", "conv3d *; conv_transpose3d *"),
    ops_limitation("metal:fp32", "convolution/transposed_1d",
             "conv_transpose1d *; conv_transpose2d 2 3"),
    ops_limitation("metal:fp32", "scaled_dot_product_attention/heads",
             "scaled_dot_product_attention 0 1 3"),
    ops_limitation("metal:fp32", "scatter_reduce/amax",
             "scatter_reduce-amax *; scatter_reduce-amin *; scatter_reduce-mean *; "
             "scatter_reduce-prod *"),
    ops_limitation("metal:fp32", "sinh/2d",
             "acosh 0 1; asinh *; cosh 0 2; logical_xor 1 2 3; sinh *"),
    ops_limitation("metal:fp32", "_embedding_bag/mean",
             "adaptive_avg_pool3d *; interpolate-area 1 2; cdist *; embedding_bag *; "
             "avg_pool2d 1; avg_pool3d 1; cumsum 0 1 3; grid_sample 1 3; masked_scatter *; "
             "sort 3; embedding 2"),
    copy_limitation(
        OPS,
        "metal:fp32",
        "convolution/2d",
        sample_globs("addmm-decomposed 1 3; addmm 1; topk 1 3"),
        reason="Inductor passes a transposed view unchanged, and aoti_torch_mps_addmm_out and "
        "aoti_torch_mps_topk read it as if it were contiguous: results are silently wrong.",
        link="https://github.com/pytorch/executorch/tree/v1.5.1/backends/apple/metal/runtime/ops",
    ),
    Limitation(
        target="metal:*",
        case=sample_globs("index_put 0 3"),
        reason="Inductor calls aoti_torch_index_put_out for an index_put that accumulates or has "
        "a bool index. Metal's runtime has no such function.",
        link="https://github.com/pytorch/executorch/tree/v1.5.1/backends/apple/metal/runtime/shims",
        stage="lower",
        error="aoti_torch_index_put_out: is not in v1.5.1 [missing]",
    ),
    Limitation(
        target="metal:*",
        case=sample_globs("unbind 3"),
        reason="Inductor calls len() on a 0-D tensor when unbind splits a vector into scalars. "
        "Workaround: `x.split(1)`.",
        link=_INDUCTOR,
        stage="lower",
        error="len() of a 0-d tensor",
    ),
    Limitation(
        target="metal:*",
        case=sample_globs("max_pool3d 3"),
        reason="Inductor's max_pool3d_with_indices returns positions for another memory layout "
        "where its input is a transposed view. torch.compile on a CPU does the same.",
        link=f"{_INDUCTOR}/lowering.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]  # fmt: skip
