"""The commands on records, one module a topic; :mod:`harness.cli` attaches them to ``conform``.

These modules import click only, at their top; everything else when a command runs, so that
``conform --help`` stays quick.
"""
