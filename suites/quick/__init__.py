"""A few cases that touch every backend and stage: ``conform run --quick``."""
