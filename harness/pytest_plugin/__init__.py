"""Pytest plugin that collects cases as test items, runs them and writes a run folder.

A project enables it in its root ``conftest.py``::

    pytest_plugins = ["harness.pytest_plugin"]

or on the command line: ``pytest -p harness.pytest_plugin``. ``conform run`` does the latter.

PYTEST_DONT_REWRITE: forked workers have this package before pytest could rewrite its assertions.
"""

from __future__ import annotations

pytest_plugins = [
    "harness.pytest_plugin.plugin",
    "harness.cli.report_plugin",
    "harness.cluster.plugin",
]
