"""What the harness itself costs, as ratios within one run because machines are noisy; and programs
of others to hold it against."""
