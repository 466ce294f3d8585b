"""Undocumented names of torch and ExecuTorch that this project uses, one module per vendor.

Each module's ``.pyi`` lists the names and where they are, and its ``USES`` the purpose. A name is
looked up on first use. If a release renames it, only its users fail, with a message that says so;
the run reports missing names at its start (:func:`find_missing_names`). The functions that
``pipeline/speed`` replaces are listed there, each with a digest.
"""

from harness.vendors.private_names import find_missing_names

__all__ = ["find_missing_names"]
