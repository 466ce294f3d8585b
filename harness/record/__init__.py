"""What is kept: the cell, the run folder, the host; and who writes them.

Plain data that loads without torch: the only wing that ``reports`` imports. Of the vocabulary it
imports ``errors`` and ``target``.
"""
