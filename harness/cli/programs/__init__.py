"""``conform inspect`` and ``conform exec``: any program, whoever made it."""
