"""Cases of the integer recipes: quantized layers, their combinations, and float operators."""
