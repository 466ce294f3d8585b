"""Executes a graph with ``mlx.core``, as the delegate's interpreter does.

``kernels/`` turns each instruction into a step, the executor runs them, the delegate hands
tensors in and out. Imports ``payload``.
"""
