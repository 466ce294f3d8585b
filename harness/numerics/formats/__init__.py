"""Decode encoded numbers: MX formats, block-quantized weights, operators that decode them.

Decoding is exact in float64, so that only arithmetic contributes errors. Imports nothing outside
this package but ``vendors``.
"""
