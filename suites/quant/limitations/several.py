"""Limitations of the integer suite: several backends, CoreML and MLX."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import FOLDED_NORM, copy_limitation
from suites.ops.limitations.coreml import COREML
from suites.ops.limitations.coreml_int8 import COREML_INT8

SEVERAL: list[Limitation] = [
    Limitation(
        target="xnnpack:int8*|tosa:int|cortex_m:*|coreml:int8",
        case="int_shared/norm_beside_reader",
        reason=FOLDED_NORM,
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/utils.py",
        stage="quantize",
        error="changed the module before anything was quantized",
    ),
    Limitation(
        target="xnnpack:int8*|tosa:int|cortex_m:*|coreml:int8",
        case="int_linear/norm_used_twice",
        reason="prepare_pt2e folds a batch norm once for each call of the layer. For the second "
        "the weight is folded already, and a bias of zeros replaces the folded one "
        "(docs/findings/torchao_norm_used_twice.py). Workaround: one call, "
        "`self.norm(self.layer(torch.cat([x, y]))).chunk(2)`.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/utils.py",
        stage="quantize",
        error="changed the module before anything was quantized",
    ),
    Limitation(
        target="mlx:fp32",
        case="prequantized/mxfp8_decoder",
        reason="The module decodes its weight with an operator of "
        "executorch.extension.llm.export.mx, which 1.4.1 does not have.",
        stage="build",
        error="executorch.extension.llm.export.mx",
        shown_as=Status.UNSUPPORTED,
        until="1.5.0",
    ),
    *(
        Limitation(
            target=target,
            case=case,
            reason="The quantize and dequantize nodes copy a tensor, and PT2E inserts them where "
            "an operator writes to the tensor or to a slice of it: the write reaches the copy "
            "alone (docs/findings.md). Workaround: torch.cat, or another operator that writes "
            "nothing.",
            link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/prepare.py",
            stage="quantize",
            error="loses the write of",
        )
        for target, case in (
            (
                "xnnpack:int8*|tosa:int|cortex_m:*|coreml:int8|openvino:int8",
                "int_in_place/copy_to_part|int_in_place/set_column|int_in_place/zero_row",
            ),
            (
                "xnnpack:int8*|cortex_m:*|coreml:int8|openvino:int8",
                "int_in_place/add_to_part|int_in_place/set_part_of_copy",
            ),
        )
    ),
    copy_limitation(
        COREML, "coreml:fp32", "max_pool2d_with_indices/plain", "int_moved/max_pool_*",
        target="coreml:int8",
    ),
    copy_limitation(
        COREML_INT8, "coreml:int8", "add/int32", "int_shared/sums_of_floats_and_integers"
    ),
    copy_limitation(
        COREML, "coreml:fp32", "lerp/number", "int_in_place/lerp", target="coreml:int8"
    ),
    copy_limitation(
        COREML, "coreml:fp32", "linear/dynamic_batch", "int_linear/dynamic_batch",
        target="coreml:int8",
    ),
]  # fmt: skip
