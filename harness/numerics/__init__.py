"""Compute the oracle and its bound, and judge outputs against them.

``formats/`` decodes encoded numbers, ``error_model/`` models the rounding errors of single
operators, ``large_tensors/`` and ``kernels/`` keep large references affordable, ``metrics/``
measures outputs. Imports ``model``, ``record`` and ``execution``.
"""
