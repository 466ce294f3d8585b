"""Execute a graph with ``mlx.core``, as the delegate's interpreter does.

``kernels/`` compiles each instruction to a step, the executor runs the steps, and ``delegate.py``
passes tensors in and out. This package imports ``payload``.
"""
