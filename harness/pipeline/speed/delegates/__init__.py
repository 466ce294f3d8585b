"""Avoid repeated work between an edge program and its delegates' payloads.

* ``partitions``: partitions merge in fewer steps.
* ``payloads``: XNNPACK's payloads are serialized in this process, with the schema that
  ``flatc_schema`` parses.
"""
