"""Arm TOSA: lowered by the Arm backend, executed by the TOSA reference model in a child process."""

from backends.tosa.backend import BACKEND

__all__ = ["BACKEND"]
