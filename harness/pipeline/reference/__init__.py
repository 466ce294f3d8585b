"""Prepare a cell's reference: eager run, calls, rounding model, checks of the module's state."""
