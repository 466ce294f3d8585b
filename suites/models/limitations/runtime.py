"""Limitations of the parts that all backends share: exir, its memory planning, the runtime."""

from __future__ import annotations

from harness import Limitation

_EXIR = "https://github.com/pytorch/executorch/blob/v1.5.1/exir/"

RUNTIME: list[Limitation] = [
    Limitation(
        target="portable:fp32|xnnpack:fp32",
        case="qwen3_moe/dynamic",
        reason="EdgeOpArgValidator (verification/arg_validator.py) runs the graph to check "
        "dtypes. There split_with_sizes_copy converts a symbolic size to an int, which makes the "
        "length of the example the only one. MLX lowers without this check, and its shapes stay "
        "dynamic. Workaround: `_check_ir_validity=False`.",
        link=f"{_EXIR}verification/arg_validator.py",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target="portable:fp32|xnnpack:fp32",
        case="parakeet/dynamic",
        reason="The relative-position shift, view(1, heads, -1, length) and a view back, has "
        "sizes that are quotients of symbols, which bound_sympy cannot bound. eval_upper_bound "
        "(sym_util.py) then takes the size of the example as the maximum and memory is planned "
        "for it, so et_view (node aten_view_copy_default_26) fails for anything longer.",
        link=f"{_EXIR}sym_util.py",
        stage="run",
        error="method->execute() failed with error 0x1",
        # Seen once: the value was the last of the memory and exceeded it, so that the program was
        # refused before it ran. Why the plan differs between processes is not known.
        or_fails=(("serialize", "is planned beyond memory"),),
    ),
    Limitation(
        target="portable:fp32",
        case="dinov2/dynamic",
        reason="upsample_bicubic2d returns position embeddings in channels-last layout, and the "
        "program declares their permutation in the default dim order. op_permute_copy.cpp "
        "requires one dim order for both (see permute_copy/channels_last_input of suites/ops). "
        "Workaround: `.contiguous()` before the permute.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/kernels/portable/cpu/"
        "op_permute_copy.cpp",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target="xnnpack:int8",
        case="rt_detr/night",
        reason="The hybrid encoder computes its position embedding in float64. XNNPACK's and "
        "Arm's quantizers annotate it, but quantize_per_tensor (quantized_decomposed) takes "
        "float32 only. Workaround: compute it in float32.",
        link="https://github.com/pytorch/pytorch/blob/v2.13.0/torch/ao/quantization/fx/"
        "_decomposed.py",
        stage="quantize",
        error="Expecting input to have dtype torch.float32, but got dtype: torch.float64",
    ),
]
