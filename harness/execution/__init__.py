"""Running programs: a ``.pte`` as typed data, and the interpreter around its delegate calls.

What no delegate took runs on the runtime's own kernels; bytes that nobody here lowered are
validated, and what is native runs in a child. Imports the vocabulary and ``record``.
"""
