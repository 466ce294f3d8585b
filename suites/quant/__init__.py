"""What the integer recipes quantize: layers, what joins them, and what they leave in float."""
