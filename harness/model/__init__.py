"""What is tested and where: cases, backends and their recipes, limitations, known issues.

Plain data and protocols. Nothing in this package exports, lowers or runs a program.
"""
