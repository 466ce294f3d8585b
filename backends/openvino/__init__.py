"""The OpenVINO backend: Intel's CPU plugin, by the delegate of the ExecuTorch runtime."""

from backends.openvino.backend import BACKEND

__all__ = ["BACKEND"]
