"""Suites of cases by field; each module has a ``CASES`` list."""
