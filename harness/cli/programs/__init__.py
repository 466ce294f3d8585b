"""``conform exec``, and ``conform show`` of a program."""
