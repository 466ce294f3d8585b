"""Tracing: find the first node where a target diverges from the oracle, reduce the graph to the
smallest part that is still red, and write it as a script that does not need this harness.
"""

AUTOMATIC_TRACE_SECONDS = 120.0
"""Time limit for tracing a cell when the user did not request it. Defined here because modules that
do not import torch read it.
"""

LOCATABLE_STAGES = frozenset({"quantize", "lower", "to_executorch", "run"})
"""Stages whose failures can be attributed to a node. Defined here for the same reason."""
