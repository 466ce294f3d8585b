"""Avoid repeated work when exir's passes walk graphs on fake tensors.

* ``fake_results``: results of operators are cached by the keys of ``fake_keys``.
* ``argument_trees``: arguments of common types are mapped without dispatch.
* ``skipped_walks``: walks without effect are skipped; ``dry_run`` asks the pass if necessary.
* ``pattern_filter``: patterns that a graph cannot match are not built.
"""
