"""Execute programs: a ``.pte`` as typed data, the native runtime, and an interpreter.

The interpreter runs fallback nodes on the runtime's kernels and passes delegate calls to backends.
Programs from elsewhere are validated, and their native code runs in a child process. The package
imports ``model`` and ``record``.
"""
