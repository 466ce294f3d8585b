"""Cells that need not run: a result of their key is stored, the run that is resumed has them, or
nothing that they hang on has changed. May import what the rest of ``collection`` may."""
