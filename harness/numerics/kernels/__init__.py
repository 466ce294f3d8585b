"""Choose threads and kernels for the operations of a reference, and run control flow.

Knows nothing of errors and bounds.
"""
