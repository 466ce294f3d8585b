"""Why a cell is red: the first node that leaves the oracle, the smallest program that still does,
and a script that shows it without this harness. It stands on the pipeline, and is used by the
command line.
"""

UNASKED_SECONDS = 120.0
"""How long a cell is traced that nobody asked to trace; here, where it is read without torch."""

LOCATED = frozenset({"quantize", "lower", "to_executorch", "run"})
"""Stages whose failures have a node to be found; here for the same reason."""
