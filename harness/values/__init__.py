"""Values in files: inputs that are read, outputs that are written.

Tensors, numbers and their containers in the formats that others write; images and audio as arrays.
Imports ``errors`` and torch.
"""
