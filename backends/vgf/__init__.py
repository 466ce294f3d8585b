"""The VGF backend: Arm lowers programs, and its ML emulation layer for Vulkan executes them."""

from backends.vgf.backend import BACKEND

__all__ = ["BACKEND"]
