"""The Cortex-M backend: CMSIS-NN kernels in place of operators, executed by Arm's references."""

from backends.cortex_m.backend import BACKEND

__all__ = ["BACKEND"]
