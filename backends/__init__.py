"""One module or package per backend: recipe data and ``execute``.

PYTEST_DONT_REWRITE: workers have this module before pytest could rewrite its assertions.
"""
