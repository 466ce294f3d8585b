"""What encoded numbers mean: MX formats, block-quantized weights, operators that decode them.

Decoding is exact in float64, so that it is arithmetic's alone to err. Imports nothing beside
itself.
"""
