"""Limitations of the integer suite: OpenVINO."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import FOLDED_NORM

_OPENVINO = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/openvino/"

OPENVINO: list[Limitation] = [
    Limitation(
        target="openvino:*",
        case="int_linear/dynamic_batch",
        reason="The delegate gives OpenVINO output tensors of the planned sizes, which are the "
        "largest ones of dynamic dimensions, and never resizes the outputs of the program "
        "(docs/findings.md). Workaround: export for one size.",
        link=f"{_OPENVINO}runtime/OpenvinoBackend.cpp",
        stage="compare",
        error="expected (",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="openvino:*",
        case="int_shared/norm_beside_reader",
        reason=FOLDED_NORM,
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/utils.py",
        stage="quantize",
        error="rewriting changed the module",
    ),
    Limitation(
        target="openvino:*",
        case="int_model/lstm*|int_model/gru|int_model/rnn",
        reason="GraphConverter.create_nncf_graph reads the shape of every value from its node, "
        "and the list of states that a recurrent layer returns has none. Workaround: cells in "
        "place of layers.",
        link="https://github.com/openvinotoolkit/nncf/blob/v3.4.0/src/nncf/experimental/torch/fx/"
        "nncf_graph_builder.py",
        stage="quantize",
        error="'NoneType' object is not iterable",
    ),
    Limitation(
        target="openvino:int8",
        case="int_island/layer_norm",
        reason="OpenVINOQuantizer quantizes the weight of a layer norm along axis 1 as if it were "
        "an activation (_get_torch_ao_qspec_from_nncf_config_for_ptq), and the weight has one "
        "axis. Workaround: QuantizationMode.INT8_TRANSFORMER.",
        link=f"{_OPENVINO}quantizer/quantizer.py",
        stage="quantize",
        error="Dimension out of range",
    ),
    Limitation(
        target="openvino:*",
        case="int_shared/add_to_itself_then_cat",
        reason="OpenVINOQuantizer._get_edge_or_node looks an operand up in Node.all_input_nodes, "
        "which has each node once, by its number among the arguments: `x + x` has one. "
        "Workaround: `2 * x`.",
        link=f"{_OPENVINO}quantizer/quantizer.py",
        stage="quantize",
        error="IndexError: list index out of range",
    ),
    Limitation(
        target="openvino:*",
        case="int_shared/sums_of_floats_and_integers",
        reason="OpenVINOQuantizer does not ask for the dtype of an operand: it observes integers "
        "with a HistogramObserver, which takes floats only.",
        link=f"{_OPENVINO}quantizer/quantizer.py",
        stage="quantize",
        error='"histogram_cpu" not implemented for',
    ),
    Limitation(
        target="openvino:*",
        case="int_conv2d/channels_last",
        reason="The delegate gives OpenVINO the memory of a channels-last tensor with its logical "
        "sizes and without strides (create_ov_tensor in runtime/OpenvinoBackend.cpp), and "
        "lowering drops the dim orders of the graph (docs/findings.md). Workaround: contiguous "
        "inputs.",
        link=f"{_OPENVINO}preprocess.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="openvino:int8",
        case="int_in_place/masked_fill",
        reason="OpenVINO's quantizer observes every operand of masked_fill_, and "
        "HistogramObserver has no histogram of a mask. Workaround: `torch.where`.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/observer.py",
        stage="quantize",
        error='"linspace_cpu" not implemented for \'Bool\'',
    ),
]  # fmt: skip
