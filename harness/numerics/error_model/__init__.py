"""Where and by how much single operators err: rounding, jumps, ranges, coordinates, signs.

Tables and formulas with their sources; the oracle's runs apply them. The modules import nothing
of the harness.
"""
