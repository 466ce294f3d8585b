"""Cells that need not run: their result is cached, recorded in a resumed run, or unaffected by
changes."""
