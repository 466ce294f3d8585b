"""XNNPACK's PT2E quantizer, and how its integer kernels round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness import Precision, UnsupportedProgram

if TYPE_CHECKING:
    import torch

# Integer kernels accumulate exactly and requantize by a float32 scale, rounding half to even where
# the graph does the same from float32 values (qs8 and qc8w gemm, dwconv and vmul,
# "fp32" in src/microparams-init.c and src/qs8-vmul), or by an integer factor of 21 bits, rounding
# half up (xnn_init_qs8_add_minmax_*_params): a neighbouring step near a tie. A bias is rounded to
# the accumulator's unit (QuantParams.from_bias), far below a step. Read from XNNPACK
# 92a7ad50, which executorch's main pinned in August 2026. A factor of 2 wants a spread that is
# known well: of 8 runs that of one element in thousands comes out at half of what it is.
STATIC = Precision(safety=2.0, samples=16)

# Scale and zero point are chosen for each row, or each image of a convolution
# (xnn_compute_f32_qx8_convert in src/operator-run.c; QuantParams._from_dynamic_input_node), where
# the graph chooses one for the tensor. A row's range is within the tensor's, so both codes are
# within half a step of the tensor's, and a step apart at most. Every element errs, not only those
# near a tie, so that the spread has to be known better: more runs, and a factor of 4.
DYNAMIC = Precision(samples=16)


def quantizer(*, per_channel: bool, dynamic: bool) -> Any:
    """Asymmetric int8 activations, symmetric int8 weights.

    Args:
        per_channel: one scale for each output channel of a weight, else one for the weight.
        dynamic: activations are quantized as they come, of linear layers and convolutions only.

    Its ``validate`` raises UnsupportedProgram when there is nothing to quantize.
    """
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    config = get_symmetric_quantization_config(is_per_channel=per_channel, is_dynamic=dynamic)
    made = XNNPACKQuantizer().set_global(config)
    made.validate = _must_quantize
    return made


def _must_quantize(model: torch.fx.GraphModule) -> None:
    """Refuse a model that was annotated nowhere: what would run is the float recipe."""
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

    for node in model.graph.nodes:
        found = node.meta.get(Q_ANNOTATION_KEY, QuantizationAnnotation())
        if any(spec is not None for spec in (found.output_qspec, *found.input_qspec_map.values())):
            return
    raise UnsupportedProgram("the program has nothing that XNNPACK's quantizer quantizes")
