"""Judge a quantizer: its grids by the values that they encode, the quantized graph by a graph that
the harness quantizes itself, and both by the float model (docs/quantization.md)."""
