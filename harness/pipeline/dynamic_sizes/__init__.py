"""Dynamic sizes: the ranges that an exported program declares, and calls at the ends of them."""
