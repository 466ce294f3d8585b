"""Known issues of backends, recognised in any cell by what failed: operator, stage, error, dtypes
and layout; never by the name of a case. Imports no torch.
"""
