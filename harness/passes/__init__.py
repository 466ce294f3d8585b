"""Check that graph passes preserve the meaning of a program.

The program is copied before and after the passes, both copies run, and each property that a pass
must keep is checked by name. Imports ``model``, ``record``, ``execution`` and ``numerics``.
"""
