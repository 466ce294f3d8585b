"""``conform inspect`` and ``conform exec``: inspect and execute any program."""
