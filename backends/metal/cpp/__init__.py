"""The wrapper's C++, read: tokens, expressions, statements, and what a whole wrapper says.

Strict: what Inductor is not known to write is an error that quotes the line. Imports nothing of
the other wings.
"""
