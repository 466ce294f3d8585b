"""Operators behind each other, many short chains to a program."""
