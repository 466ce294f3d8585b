"""Generate wrapper and shaders of a partition: Inductor generates code for MPS on any host.

Upstream's ``preprocess`` runs unchanged, with replacements for Apple hardware. This package imports
no sibling package; they read the result in ``generated``.
"""
