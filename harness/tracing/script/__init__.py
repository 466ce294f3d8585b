"""Writes a red cell as a Python script that needs only torch and executorch.

The script contains the graph, the values, the lowering and the comparison.
"""
