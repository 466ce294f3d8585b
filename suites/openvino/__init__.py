"""Cases of OpenVINO's delegate: layouts, sizes, integers, precision and kinds of quantization."""
