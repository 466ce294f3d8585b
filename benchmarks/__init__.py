"""What the harness itself costs; ratios within one run, because machines are noisy."""
