"""XNNPACK's PT2E quantizer, and the precision of its integer kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness import UnsupportedProgram
from harness.backend_api import Precision

if TYPE_CHECKING:
    import torch

# Integer kernels accumulate exactly. They requantize by a float32 scale and round half to even, as
# the graph does from float32 values (qs8 and qc8w gemm, dwconv and vmul, "fp32" in
# src/microparams-init.c and src/qs8-vmul), or by an integer factor of 21 bits and round half up
# (xnn_init_qs8_add_minmax_*_params): near a tie the result is the neighbouring step. A bias is
# rounded to the accumulator's unit (QuantParams.from_bias), far below a step. Source: XNNPACK
# 92a7ad50, pinned by executorch's main in August 2026. A factor of 2 needs 16 perturbed runs: with
# 8, the estimated spread of one element in thousands is half the true one.
STATIC = Precision(safety=2.0, samples=16)

# The kernels choose scale and zero point for each row, or each image of a convolution
# (xnn_compute_f32_qx8_convert in src/operator-run.c; QuantParams._from_dynamic_input_node); the
# graph chooses one for the tensor. A row's range is within the tensor's, so both codes are within
# half a step of the tensor's, and at most a step apart. Every element errs, not only those near a
# tie, so the spread needs more runs and a factor of 4.
DYNAMIC = Precision(samples=16)


def make_quantizer(*, per_channel: bool, dynamic: bool) -> Any:
    """Make a quantizer for asymmetric int8 activations and symmetric int8 weights.

    Args:
        per_channel: one scale for each output channel of a weight, else one for the weight.
        dynamic: choose activation scales at run time, for linear layers and convolutions only.

    The quantizer's ``validate`` raises UnsupportedProgram when there is nothing to quantize.
    """
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    config = get_symmetric_quantization_config(is_per_channel=per_channel, is_dynamic=dynamic)
    quantizer = XNNPACKQuantizer().set_global(config)
    quantizer.validate = _require_annotations
    return quantizer


def _require_annotations(model: torch.fx.GraphModule) -> None:
    """Reject a model without annotations: it would run as in the float recipe."""
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

    for node in model.graph.nodes:
        found = node.meta.get(Q_ANNOTATION_KEY, QuantizationAnnotation())
        if any(spec is not None for spec in (found.output_qspec, *found.input_qspec_map.values())):
            return
    raise UnsupportedProgram("XNNPACK's quantizer quantizes nothing in this program")
