"""Describe and execute programs from any source.

The delegates that a program names determine the backends that execute it. Execution happens in the
child process of :mod:`harness.execution.foreign_programs`.
"""
