"""``conform passes`` and its output."""
