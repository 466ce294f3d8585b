"""Cases by field; one module per group, each with a ``CASES`` list."""
