"""What we use of torch and ExecuTorch that they promise nobody: a module a vendor, and that alone.

Each module's ``.pyi`` names what it takes from where, and its ``USES`` what for. A name is looked
up when it is first asked for. Where a release has renamed it, what needs it fails with words that
say so, the rest goes on, and a run says at its start what is gone (:func:`gone`). Functions that
``pipeline/speed`` replaces stand there, beside a digest of each. Imports nothing else of the
harness but its ground.
"""

from harness.vendors.private_names import gone

__all__ = ["gone"]
