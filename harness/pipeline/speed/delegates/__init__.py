"""From an edge program to its delegates' payloads.

Partitions are merged with fewer steps (``merging``), and a payload of XNNPACK's is written by this
process (``payloads``), by the compiler's own account of the schema (``schema``).
"""
