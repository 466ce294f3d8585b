"""Known issues of backends, recognised in a failed cell by operator, stage, error, dtypes and
layout, never by the name of a case. Imports no torch.
"""
