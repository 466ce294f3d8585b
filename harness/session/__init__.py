"""From suites to cells, without pytest: find cases, run one of them, reuse cached results.

:mod:`harness.pytest_plugin` and :mod:`harness.cluster` are built on it.
"""
