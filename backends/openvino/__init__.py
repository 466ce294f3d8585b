"""The OpenVINO backend: the ExecuTorch runtime's delegate with Intel's CPU plugin, in a child process."""

from backends.openvino.backend import BACKEND

__all__ = ["BACKEND"]
