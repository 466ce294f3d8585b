"""A few cases that cover every backend and stage: ``conform run --quick``."""
