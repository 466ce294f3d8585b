"""Kernels that move, select and create elements; apart from fills and sums they are exact."""
