"""Records: cells, runs, run folders and hosts, and the classes that write them.

Plain data that loads without torch; the only package of the harness that ``reports`` imports.
"""
