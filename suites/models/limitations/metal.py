"""Limitations of Metal; ``suites/metal`` has small cases of most of them."""

from __future__ import annotations

from harness import Limitation

_BACKENDS = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/"
_OPS = f"{_BACKENDS}apple/metal/runtime/ops/"
_ISSUES = "https://github.com/pytorch/executorch/issues/"


def _lower(cases: str, reason: str, link: str, error: str) -> Limitation:
    return Limitation(
        target="metal:*", case=cases, reason=reason, link=link, stage="lower", error=error
    )


METAL: list[Limitation] = [
    Limitation(
        target="metal:int4",
        case="mamba/tiny",
        reason="The model passes a transposed view or a slice to a linear layer. The Meta kernel "
        "of torchao::_linear_fp_act_4bit_weight (ops/mps/mps_op_lib.py) asserts that activations "
        "are contiguous, and UIntxWeightOnlyQuantizedLinear does not make them contiguous. "
        "Workaround: `.contiguous()` before the layer.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/experimental/ops/mps/"
        "mps_op_lib.py",
        stage="export",
        error="AssertionError",
    ),
    Limitation(
        target="metal:int4",
        case="t5/tiny",
        reason="The model reads the weight's dtype from its linear layer (wo.weight). "
        "UIntxWeightOnlyQuantizedLinear, which replaces the layer, has no attribute `weight`.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/experimental/quant_api.py",
        stage="export",
        error="'UIntxWeightOnlyQuantizedLinear' object has no attribute 'weight'",
    ),
    _lower(
        "deit/tiny|vit/tiny|dinov2/tiny|resnet/tiny|mobilenet_v2/tiny|efficientnet/tiny|sam2/tiny|"
        "vit/night|dinov2/night|efficientnet/night|"
        "parakeet/ctc|resnet/50|mobilenet_v2/1.0_224|efficientnet/b0|parakeet/0.6b_layer",
        "Inductor's layout optimization (GraphLowering.decide_layout_opt) gives most 2-D "
        "convolutions channels-last operands. aoti_torch_mps_convolution (op_convolution.mm) "
        "reads them as if they were contiguous, so results are silently wrong. Workaround: "
        "`torch._inductor.config.layout_optimization = False` before lowering.",
        f"{_ISSUES}22951",
        "convolution: input strides",
    ),
    _lower(
        "siglip/tiny|siglip/night|siglip/base_224",
        "The attention of the head (head.attention) has one query. Inductor leaves the stride of "
        "that dimension of size 1 arbitrary, and aoti_torch_mps_bmm_out (op_bmm.mm) compares all "
        "strides with those of a contiguous tensor, including those of dimensions of size 1.",
        f"{_OPS}op_bmm.mm",
        "are not exactly those of a contiguous tensor",
    ),
    _lower(
        "mobilebert/*",
        "A cat joins the embeddings of a token and of its neighbours, and its parts are written "
        "through views. aoti_torch__reinterpret_tensor (shims/memory.cpp) copies a view with a "
        "storage offset into a new Metal buffer at once, before the GPU has written the memory.",
        f"{_ISSUES}22956",
        "into memory of this run",
    ),
    _lower(
        "tagger/tiny|mamba/130m_layer",
        "A cat joins the states of the LSTM's directions (or of Mamba's steps), and its parts are "
        "written through views with gaps between their rows. aoti_torch__reinterpret_tensor "
        "(shims/memory.cpp) makes dense copies of these views, and the kernel writes into a copy "
        "with the strides of the view: the result never gets the part, and the kernel writes "
        "past the copy.",
        f"{_ISSUES}22983",
        "index a dense copy of the view",
    ),
    _lower(
        "bert/batch_2",
        "All heads of a sentence share the padding mask. op_sdpa.mm locates the mask of a head "
        "from the mask's stride over heads and the head's number counted over all batches, and "
        "reads the wrong mask when only heads or only batches share one. Workaround: expand the "
        "mask to all batches and heads, and clone it.",
        f"{_OPS}op_sdpa.mm",
        "is neither one mask for all nor one for each",
    ),
    _lower(
        "rf_detr/tiny",
        "The model calls topk_coords_logits.detach(). AotiPartitioner.ops_to_not_decompose "
        "(aoti_partitioner.py) keeps every operator, so exir makes aten.detach_copy of a detach "
        "that would otherwise become an alias_copy. Inductor has no lowering for it, and the "
        "runtime has no kernel. Workaround: leave `.detach()` out.",
        f"{_BACKENDS}aoti/aoti_partitioner.py",
        "aten::detach_copy",
    ),
    _lower(
        "rt_detr/night",
        "The hybrid encoder computes its position embedding in float64. AotiPartitioner "
        "(aoti_partitioner.py) delegates every operator whatever its dtype, and Inductor's Metal "
        "code (DTYPE_TO_METAL, torch/_inductor/codegen/mps.py) has no float64. Workaround: "
        "compute it in float32.",
        f"{_BACKENDS}aoti/aoti_partitioner.py",
        "KeyError: torch.float64",
    ),
    # The cause is in runtime.py: the program has the one length of its example.
    _lower(
        "qwen3_moe/dynamic",
        "EdgeOpArgValidator (exir/verification/arg_validator.py) runs the graph to check dtypes. "
        "There split_with_sizes_copy converts a symbolic size to an int, which makes the length "
        "of the example the only one. The release drops the generated assertion that would "
        "report it. Workaround: `_check_ir_validity=False`.",
        "https://github.com/pytorch/executorch/blob/v1.5.1/exir/verification/arg_validator.py",
        "assert_size_stride: tensor shape (1, 2) is not (1, 12)",
    ),
]
