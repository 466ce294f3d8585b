"""A red cell as a Python file that needs torch and executorch only: its graph, values, lowering and
comparison spelled out.
"""
