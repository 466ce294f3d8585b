"""From a partition to wrapper and shaders: Inductor generates for MPS on any host.

Upstream's ``preprocess`` runs as it is, under patches that stand for Apple hardware. Imports
nothing of the other wings; ``generated`` is what they read.
"""
