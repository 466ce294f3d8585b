"""Read and verify a payload of the MLX delegate: from the flatbuffer to a graph.

The schema comes from the installed wheel. This package does not import ``execution``.
"""
