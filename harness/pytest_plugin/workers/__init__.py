"""Starts xdist workers, and distributes tests among them."""
