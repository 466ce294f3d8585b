"""Compare runs: ``diff`` lists changes, ``gate`` judges them, ``merge`` joins several runs.

A snapshot is the part of a run that comparisons use; a baseline is a snapshot in a file. This
package imports modules of ``reports`` itself, and the Markdown helpers of ``render``.
"""
