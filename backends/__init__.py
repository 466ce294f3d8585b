"""Backends: one module or package for each, with its recipes as data and its ``execute``.

PYTEST_DONT_REWRITE: worker processes import this module before pytest can rewrite its assertions.
"""
