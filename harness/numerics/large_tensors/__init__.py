"""Compute large operations at a lower cost in time and memory, with the same verdicts.

The runs share large sums, linear operations apply to deviations only, and attention is computed in
blocks. Imports the error model.
"""
