"""Properties of one operator crossed with each other, in pairwise covering arrays."""
