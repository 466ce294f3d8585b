"""Two runs: what changed (``diff``), whether it may (``gate``), and several hosts' runs as one.

A snapshot is what a comparison needs of a run, a baseline the same as a file. Imports what stands
beside this folder, and ``render``'s Markdown.
"""
