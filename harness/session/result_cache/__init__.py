"""Results that need not be computed twice: what a cell's record hangs on, its key, and the store.

May import the vocabulary, the registry and the record; never torch, and nothing that runs cells.
"""
