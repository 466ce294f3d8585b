"""The pytest side: what is collected, who runs what, and how records reach their folder.

Options and items in the controller, watchdogs in the workers, suites found by their ``CASES``.
Imports everything below it: the vocabulary, ``record`` and ``pipeline``.
"""
