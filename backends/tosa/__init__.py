"""The TOSA backend: Arm lowers programs, and the TOSA reference model runs in a child process."""

from backends.tosa.backend import BACKEND

__all__ = ["BACKEND"]
