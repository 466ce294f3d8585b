"""Limitations of the suites for Metal: mostly calls that the release's runtime gets wrong.

An error begins with the runtime function and names the rule of ``backends/metal/contract`` that the
call breaks. On a device these cases fail too, or give wrong results.
"""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation, variants
from suites.ops.limitations import LIMITATIONS as OPS

_ALL = "metal:*"
_RUNTIME = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/apple/metal/runtime/"
_ISSUES = "https://github.com/pytorch/executorch/issues/"
_TORCHAO = "https://github.com/pytorch/ao/blob/v0.18.0/torchao/experimental/"
_SDPA = "scaled_dot_product_attention"


def _lower(cases: str, reason: str, link: str, error: str) -> Limitation:
    return Limitation(target=_ALL, case=cases, reason=reason, link=link, stage="lower", error=error)


_MATMUL = [
    _lower(
        variants("mm", "transposed_left left_transposed_after_kernel transposed_of_*"),
        "aoti_torch_mps_mm_out (op_mm.mm) checks the strides of its second operand only. It reads "
        "the first operand row by row, whatever its strides, so the product with a transposed "
        "first operand is wrong.",
        _RUNTIME + "ops/op_mm.mm",
        "mm_out: self strides (1, ",
    ),
    _lower(
        "mm/expanded_into_bmm|bmm/dynamic_scores",
        "aoti_torch_mps_bmm_out (op_bmm.mm) takes row-major operands only, but Inductor passes a "
        "transposed view of a 3-D operand, as it may to the BLAS of other devices. The runtime "
        "raises an error.",
        _RUNTIME + "ops/op_bmm.mm",
        "bmm_out: mat2 strides",
    ),
    _lower(
        "relative_attention/one_frame",
        "aoti_torch_mps_bmm_out (op_bmm.mm) compares all strides with those of a contiguous "
        "tensor, including the strides of dimensions of size 1, which Inductor leaves arbitrary. "
        "It refuses operands that are contiguous in fact.",
        _RUNTIME + "ops/op_bmm.mm",
        "are not exactly those of a contiguous tensor",
    ),
    _lower(
        "mm/plus_number",
        "Inductor makes an addmm of a product plus a number. With max_autotune, which "
        "metal_backend.py enables, tuned_addmm reads the first stride of the bias, and a 0-D "
        "bias has none: lowering raises IndexError. Workaround: a bias with a dimension, "
        "`shift.reshape(1)`.",
        "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/kernel/mm.py",
        "list index out of range",
    ),
    # In float32 Inductor adds the bias here in a separate kernel.
    Limitation(
        target="metal:bf16",
        case="addmm/two_shapes_of_bias",
        reason="aoti_torch_mps_addmm_out (op_addmm.mm) caches compiled graphs by the sizes of the "
        "factors and the rank of the bias, not by the shape of the bias. A second addmm whose "
        "bias has another shape reuses the graph of the first and is wrong.",
        link=_RUNTIME + "ops/op_addmm.mm",
        stage="lower",
        error="differs from an earlier call's, whose graph is reused",
    ),
]

_CONVOLUTION = [
    _lower(
        "|".join(
            (
                variants(
                    "convolution",
                    "encoder_2d_depthwise_dilated encoder_2d_depthwise_unbatched "
                    "same_sizes_with_bias_and_without two_output_paddings subsampling "
                    "subsampling_batch_2 subsampling_no_bias subsampling_odd_length "
                    "subsampling_projected batch_norm_relu 2d_transposed_image "
                    "2d_transposed_image_after_kernel 2d_channels_moved 2d_channels_last_inside "
                    "2d_channels_last_after_kernel 2d_result_channels_last 2d_many_channels "
                    "2d_many_channels_chain 2d_weight_transposed",
                ),
                "cat/of_convolutions|parakeet/encoder|parakeet/encoder_eager_attention",
            )
        ),
        "Inductor's layout optimization makes the operands of 2-D convolutions channels-last "
        "where all sizes are known and its heuristic expects a gain. aoti_torch_mps_convolution "
        "(op_convolution.mm) reads them as if they were contiguous, so results are silently "
        "wrong. Workaround: `torch._inductor.config.layout_optimization = False` before lowering.",
        _ISSUES + "22951",
        "convolution: input strides",
    ),
]

_VIEWS = [
    _lower(
        "|".join(
            (
                variants(
                    "mm",
                    "second_rows_of_result second_columns_of_result split_of_result "
                    "chunk_columns_of_result chunk_into_mm second_chunk_into_mm rows_into_bmm "
                    "narrow_into_topk rows_are_result columns_are_result",
                ),
                variants("bmm", "second_rows_of_result split_of_result"),
                variants(
                    "addmm",
                    "second_rows_of_result second_columns_of_result split_of_result "
                    "chunk_columns_of_result",
                ),
                variants("convolution", "second_rows_of_result split_of_result"),
                variants(
                    "topk",
                    "second_rows_of_result second_columns_of_result split_of_result "
                    "chunk_columns_of_result every_second_column_of_result",
                ),
                variants("cat", "ten_by_columns ten_by_rows"),
                variants(_SDPA, "one_projection one_projection_after_kernel"),
            )
        ),
        "aoti_torch__reinterpret_tensor (shims/memory.cpp) copies a view with a storage offset "
        "into a new Metal buffer. It copies at once, before the GPU has written the memory, so "
        "the kernel that reads the view gets stale values.",
        _ISSUES + "22956",
        "into memory of this run",
    ),
    _lower(
        "cat/of_pools",
        "aoti_torch__reinterpret_tensor (shims/memory.cpp) makes a dense copy of a view with gaps "
        "between its rows. The kernel that writes one part of a cat writes into this copy, with "
        "the strides of the view: the result never gets the part, and the kernel writes past the "
        "copy.",
        _ISSUES + "22983",
        "index a dense copy of the view",
    ),
    _lower(
        variants("topk", "transposed_of_* transposed_input transposed_after_kernel"),
        "aoti_torch_mps_topk (op_topk.mm) passes the memory and the sizes of its operand to "
        "MPSGraph, but not the strides, so a transposed operand gives wrong values.",
        _RUNTIME + "ops/op_topk.mm",
        "topk: self strides (1, ",
    ),
    _lower(
        "topk/int32",
        "aoti_torch_mps_topk (op_topk.mm) refuses every dtype except float32 and bfloat16, but "
        "MetalPartitioner delegates a topk of any dtype.",
        _RUNTIME + "ops/op_topk.mm",
        "topk: self dtype int32",
    ),
]

_ATTENTION = [
    _lower(
        variants(
            _SDPA,
            "head_dim_8 head_dim_32 head_dim_72 head_dim_80 head_dim_100 head_dim_192 head_dim_512",
        )
        + "|relative_attention/head_dim_12",
        "op_sdpa.mm has kernels for head dimensions 64, 96, 128 and 256 only. Inductor does not "
        "know this and calls it for any head dimension; the runtime raises an error. Workaround: "
        "pad queries, keys and values to the next of these sizes, and pass `scale`.",
        _RUNTIME + "ops/op_sdpa.mm",
        "is not 64, 96, 128 or 256",
    ),
    _lower(
        _SDPA + "/last_stride_not_one",
        "op_sdpa.mm refuses an operand whose last dimension does not have stride 1, which "
        "Inductor passes unchanged.",
        _RUNTIME + "ops/op_sdpa.mm",
        "do not end in 1",
    ),
    _lower(
        _SDPA + "/three_dimensions",
        "op_sdpa.mm reads four sizes without checking the rank, so queries, keys and values of "
        "three dimensions are not supported. Workaround: add a dimension of size 1, `q[None]`.",
        _RUNTIME + "ops/op_sdpa.mm",
        "query rank 3 is not 4",
    ),
    _lower(
        _SDPA + "/values_of_other_size",
        "op_sdpa.mm assumes that values have the shape of keys and does not check it. Values of "
        "another size are read wrongly.",
        _RUNTIME + "ops/op_sdpa.mm",
        "value shape (1, 2, 5, 128) is not",
    ),
    _lower(
        variants(_SDPA, "causal_longer_keys causal_longer_queries"),
        "The causal mask in op_sdpa.mm aligns the last query with the last key. In torch it "
        "aligns the first query with the first key, so results differ where there are not as "
        "many keys as queries. Workaround: pass the mask as `attn_mask` instead of "
        "`is_causal=True`.",
        _RUNTIME + "ops/op_sdpa.mm",
        "aligns the last query with the last key",
    ),
    _lower(
        variants(_SDPA, "*_a_head_each *_a_batch_each *_padding_of_batches"),
        "op_sdpa.mm locates the mask of a head from the mask's stride over heads and the head's "
        "number counted over all batches. It reads the wrong mask when heads share a mask but "
        "batches do not, or the reverse. Workaround: expand the mask to all batches and heads, "
        "and clone it.",
        _RUNTIME + "ops/op_sdpa.mm",
        "is neither one mask for all nor one for each",
    ),
]

_INT4 = [
    Limitation(
        target=_ALL,
        case="linear/int4_second_columns|linear/int4_turned",
        reason="The Meta kernel of torchao's 4-bit linear (experimental/ops/mps/mps_op_lib.py) "
        "asserts that activations are contiguous, and UIntxWeightOnlyQuantizedLinear, which "
        "replaces torch.nn.Linear, does not make them contiguous. Workaround: `.contiguous()` "
        "before the layer.",
        link=_TORCHAO + "ops/mps/mps_op_lib.py",
        stage="export",
        error="AssertionError",
    ),
    Limitation(
        target=_ALL,
        case="linear/int4_1d",
        reason="UIntxWeightOnlyQuantizedLinear (experimental/quant_api.py), which replaces "
        "torch.nn.Linear, asserts that activations have two dimensions or more; torch.nn.Linear "
        "also takes a vector. Workaround: `layer(x[None])[0]`.",
        link=_TORCHAO + "quant_api.py",
        stage="export",
        error="AssertionError",
    ),
]

_REDUCTIONS = [
    Limitation(
        target=_ALL,
        case="amax/metal_dynamic_into_buffer",
        reason="MetalKernel.store (codegen/mps.py of Inductor) writes results computed after a "
        "reduction without the guard that store_reduction has. Every lane reads and writes the "
        "buffer, so a lane may add to a value that another lane has already updated. Workaround: "
        "a fixed length of at most 32, which takes one group.",
        link="https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/codegen/mps.py",
        stage="run",
        error="without a barrier between",
    ),
]

_SIZES = [
    Limitation(
        target=_ALL,
        case="floor_divide/metal_dynamic_by_rows",
        reason="torch.export declares a minimum of 1 in range_constraints, but the range of the "
        "symbol in its ShapeEnv begins at 2. Inductor simplifies sizes with the latter: 1 // "
        "rows becomes 0, which is wrong for one row. AOTInductor on a CPU has the same defect.",
        link="https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/sizevars.py",
        stage="compare",
        outcome=Status.MISMATCH,
        error="call 1 has a:0 = 1 (declared: 1 to 9; exported with 4)",
    ),
    Limitation(
        target=_ALL,
        case="size_number/rounded_up",
        reason="MetalExprPrinter (codegen/mps.py of Inductor) has no _print_CeilToInt, so the "
        "kernel calls `CeilToInt`, which Metal does not have: the delegate lowers, and does not "
        "load. Workaround: `-(-n // 5)`.",
        link="https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/codegen/mps.py",
        stage="run",
        error="CeilToInt",
    ),
]

_RELEASES = [
    copy_limitation(OPS, target, ours, cases)
    for target in ("metal:fp32", "metal:bf16")
    for ours, cases in (
        (
            "addmm/plain",
            "addmm/chunk_columns_of_result|addmm/encoder_*|addmm/every_second_column_of_result"
            "|addmm/expanded_*_of_result|addmm/row_after_kernel|addmm/second_*_of_result"
            "|addmm/split_of_result|addmm/strided_of_result|addmm/transposed_of_result"
            "|convolution/2d_channels_last_1_pixel|convolution/subsampling"
            "|convolution/subsampling_batch_2|convolution/subsampling_odd_length"
            "|convolution/subsampling_projected|linear/encoder_same_layer_twice"
            "|mm/plus_one_element|parakeet/encoder|parakeet/encoder_eager_attention",
        ),
        (
            "split_with_sizes_copy/even",
            "*/chunk_columns_of_*|*/split_of_*|mm/chunk_into_mm|mm/first_chunk_into_mm"
            "|mm/second_chunk_into_mm|mm/split_in_three|" + f"{_SDPA}/chunks_of_projection",
        ),
    )
]

LIMITATIONS: list[Limitation] = [
    *_RELEASES, *_MATMUL, *_CONVOLUTION, *_VIEWS, *_ATTENTION, *_INT4, *_REDUCTIONS,
    *_SIZES,
]  # fmt: skip
