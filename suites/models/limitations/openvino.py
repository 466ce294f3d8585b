"""Limitations of the OpenVINO backend."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OPS

OPENVINO: list[Limitation] = [
    # The length of a cache, a buffer without dimensions.
    copy_limitation(
        OPS, "openvino:fp32", "add/scalars", "llama/decode|voxtral/decode|whisper/decode"
    ),
    Limitation(
        target="openvino:*",
        case="efficientnet/tiny",
        reason="The partitioner takes avg_pool2d by its name. Its window is larger than the "
        "input, which ceil_mode allows in torch, and AvgPool of OpenVINO does not. Workaround: "
        "a mean over the dimensions.",
        link="https://github.com/openvinotoolkit/openvino/blob/master/src/core/shape_inference/"
        "include/pooling_shape_inference_util.hpp",
        stage="lower",
        error="OpConversionFailure",
    ),
]
