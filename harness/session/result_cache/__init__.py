"""The result cache: the dependencies of a cell's record, its cache key, and the store.

May import the vocabulary, the registry and the record; never torch, and nothing that runs cells.
"""
