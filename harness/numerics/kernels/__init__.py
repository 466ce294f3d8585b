"""How torch computes the operations of a reference: on how many threads, and by which kernel. Knows
nothing of errors and bounds.
"""
