"""Whether a graph pass preserves what a program means: the program is kept before and after it,
both are run, and each property that a pass must keep is looked at by name.

Imports the vocabulary, ``record``, ``execution`` and ``numerics``.
"""
