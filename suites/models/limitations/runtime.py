"""Limitations of what all backends share: exir, its planning of memory, the runtime."""

from __future__ import annotations

from harness import Limitation

_EXIR = "https://github.com/pytorch/executorch/blob/v1.5.1/exir/"

RUNTIME: list[Limitation] = [
    Limitation(
        target="portable:fp32|xnnpack:fp32",
        case="qwen3_moe/dynamic",
        reason="EdgeOpArgValidator (verification/arg_validator.py) runs the graph to look at "
        "dtypes: split_with_sizes_copy of a symbolic size asks the symbol for an int, and the "
        "length of the example becomes the only one. With _check_ir_validity=False, as MLX "
        "lowers, shapes stay dynamic.",
        link=f"{_EXIR}verification/arg_validator.py",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target="portable:fp32|xnnpack:fp32",
        case="parakeet/dynamic",
        reason="The shift of relative positions, view(1, heads, -1, length) and a view back, has "
        "sizes that are quotients of symbols, which bound_sympy cannot bound: eval_upper_bound "
        "(sym_util.py) then takes the example's for the largest, memory is planned for that, and "
        "et_view (node aten_view_copy_default_26) fails on anything longer.",
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
        reason="The embeddings of positions come out of upsample_bicubic2d channels last, and the "
        "program declares what is permuted of them in the default dim order; op_permute_copy.cpp "
        "demands one dim order of both (permute_copy/channels_last_input of the operators).",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/kernels/portable/cpu/"
        "op_permute_copy.cpp",
        stage="run",
        error="method->execute() failed with error 0x12",
    ),
    Limitation(
        target="xnnpack:int8",
        case="rt_detr/night",
        reason="The position embedding of the hybrid encoder is computed in float64: the quantizer "
        "annotates it, as Arm's does, and quantize_per_tensor (quantized_decomposed) takes float32 "
        "alone.",
        link="https://github.com/pytorch/pytorch/blob/v2.13.0/torch/ao/quantization/fx/"
        "_decomposed.py",
        stage="quantize",
        error="Expecting input to have dtype torch.float32, but got dtype: torch.float64",
    ),
]
