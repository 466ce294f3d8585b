"""What a cell is held against: the first eager run, the calls, the arithmetic that is supposed, and
what the cells of a case share of all that."""
