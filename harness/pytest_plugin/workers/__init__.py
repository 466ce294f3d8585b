"""xdist's workers: where they come from, and which tests each is given."""
