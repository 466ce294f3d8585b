"""What is measured of an output: how it differs, what the errors look like, how telling it is.

A tensor, its oracle and its bound go in, numbers and a few words come out. Imports ``bounds``.
"""
