"""Parse the wrapper's C++: tokens, expressions, statements, and a whole wrapper.

Strict: what Inductor is not known to write is an error that quotes the line. Imports nothing of
the other wings.
"""
