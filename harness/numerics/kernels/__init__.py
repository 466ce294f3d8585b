"""Choose threads and kernels for the float64 operations of a reference. Knows nothing of errors and
bounds.
"""
