"""Avoid repeated work when exir's passes and verifiers walk graphs on fake tensors.

* ``fake_results``: results of operators are cached by the keys of ``fake_keys``.
* ``delegate_calls``: operators of a delegate are called without building a module.
* ``argument_trees``: arguments of common types are mapped without dispatch.
* ``skipped_walks``: walks without effect are skipped; ``dry_run`` asks the pass if necessary.
* ``propagation``: Arm's propagation of views and permutes walks a graph once.
* ``verification``: verified graphs and calls are not verified again.
* ``pattern_filter``: patterns that a graph cannot match are not built.
"""
