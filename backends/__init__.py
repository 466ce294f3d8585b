"""One module or package per backend: recipe data and ``execute``."""
