"""How often a verdict is wrong: right programs called wrong, and faults that pass."""
