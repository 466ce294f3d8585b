"""Measure an output: its differences, the pattern of its errors, and whether it is conclusive.

Functions take a tensor, its oracle and its bound, and return figures and short texts. Imports
``bounds``.
"""
