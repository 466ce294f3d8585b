"""Values: inputs that are read from files, outputs that are written there, and what draws others.

Tensors, numbers and their containers in the formats that others write; images and audio as arrays;
the process' generators of random numbers, seeded and restored. Imports ``errors`` and torch.
"""
