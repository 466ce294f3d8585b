"""The TOSA specifications that programs are lowered to, as Arm spells them."""

from __future__ import annotations

FP = "TOSA-1.0+FP"
INT = "TOSA-1.0+INT"
MXFP = "TOSA-1.1+FP+bf16+mxfp"
