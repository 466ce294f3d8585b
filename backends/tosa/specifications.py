"""The TOSA specifications that the recipes lower to, in Arm's spelling."""

from __future__ import annotations

FP = "TOSA-1.0+FP"
INT = "TOSA-1.0+INT"
MXFP = "TOSA-1.1+FP+bf16+mxfp"
