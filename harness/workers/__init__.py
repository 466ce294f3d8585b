"""Worker processes: how one is started, asked, watched, ended and replaced.

:mod:`.process` is the supervisor's side of a process and :mod:`.served` the other; both send
messages of :mod:`.protocol`. Imports no torch.
"""
