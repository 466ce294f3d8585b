"""The known issue of each script in ``docs/findings/``; scripts are named without their suffix."""

from __future__ import annotations

RECOGNISED = {
    "arm_inplace_state": "RewriteInplaceArithmeticPass",
    "arm_var_of_all": "DecomposeVarPass",
    "exir_cse_literals": "CSEPass._make_hashable represents a node",
    "exir_cse_zeros": "Exir's CSE treats 0.0 and -0.0",
    "exir_picture_dim_order": "Exir gives pictures of batch size 1",
    "exir_split_fixes_length": "split_with_sizes_copy",
    "exir_two_conditionals": "result of a conditional",
    "exir_view_of_attention": "to_edge_transform_and_lower decomposes in two steps",
    "inductor_constant_buffer": "Inductor treats a buffer of one element",
    "inductor_max_pool3d_positions": "max_pool3d_with_indices",
    "inductor_product_and_number": "Inductor makes an addmm",
    "inductor_unguarded_write": "MetalKernel.store",
    "mlx_collapse_dtype": "MLX drops casts",
    "mlx_constant_of_two_partitions": "duplicate_constant_node",
    "mlx_item_of_bool": "_sample_handler",
    "mlx_kv_cache_passes": "RemoveNoOpsPass (backends/mlx/passes.py) removes the full slice",
    "mlx_number_beside_integers": "_make_binary_handler",
    "mlx_rms_norm_dims": "RMSNormMatch.maybe_create (passes.py) does not check the dimensions",
    "mlx_sort_direction": "_sort_handler",
    "runtime_add_alpha": "Native add scales the wrong operand",
    "runtime_cat_channels_last": "op_cat.cpp",
    "runtime_cat_two_dtypes": "cat_out",
    "runtime_floor_division": "floor_divide (kernels",
    "runtime_layer_norm_half": "LayerNorm in 16 bits",
    "runtime_nonzero_dim_order": "op_nonzero.cpp",
    "runtime_remainder": "remainder_override",
    "runtime_sum_of_scalar": "The sum of a scalar",
    "torchao_histogram_first_step": "HistogramObserver clips",
    "tosa_grid_sampler_range": "clips the image of grid_sample",
    "tosa_int16_table": "Arm's 16-bit tables",
    "tosa_log1p_of_negatives": "DecomposeLog1pPass selects",
    "tosa_lstm_cells": "_decompose_cell",
    "tosa_neg_of_relu": "negates values without their scale",
    "tosa_transposed_beside_constant": "drop a transposition",
    "tosa_view_before_slice": "the wrong part of a joint projection",
    "xnnpack_clamp_bool": "clamp whose bound is a bool",
    "xnnpack_conv1d_beside_float": "takes a float conv1d beside",
    "xnnpack_exp_nan": "f32-vexp",
    "xnnpack_gelu_tanh": "GeluVisitor",
    "xnnpack_int8_weight_only_linear": "ConvertToLinearPass",
    "xnnpack_layer_used_twice": "NodeVisitor.define_tensor",
    "xnnpack_partition_with_cycle": "groups operators around others",
    "xnnpack_resize_scale": "op_static_resize_bilinear_2d",
    "xnnpack_softmax_behind_convolution": "SoftmaxConfig.check_constraints",
    "xnnpack_two_activations": "FuseActivationPass.call",
    "xnnpack_shared_dequantize": "drops floating-point readers",
}
"""A part of the cause of the issue, by script."""

UNRECOGNISED = {
    "xnnpack_hostile_bytes": "a program is damaged after it was lowered",
    "xnnpack_attention_not_fused": "what is computed is right",
    "transforms_contiguous_drops_casts": "no target runs the pass by default; with it the "
    "properties of the pass say so",
    "exir_reinplace_returned": "off by default; with it the properties of the pass say so",
    "mlx_static_cache_positions": "the exported program is wrong, and the reference with it",
    "torch_gemm_alpha_zero": "eager torch is wrong, and the case is refused as not deterministic",
}
"""Scripts whose defect cannot be recognised from a failed cell, and why."""
