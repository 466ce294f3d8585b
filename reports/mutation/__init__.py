"""Show how many mutants of the lowering code cells notice: in the terminal, on a page, in docs."""
