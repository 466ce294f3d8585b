"""Avoid repeating decompositions for each target of a case.

* ``decomposition_tables``: tables are created once a process.
* ``decompositions``: targets that decompose a program alike share the result; a program that needs
  no trace to become functional (``functionalization``) is not traced.
"""
