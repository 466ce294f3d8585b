"""``conform coverage`` and ``conform mutate``: what cells execute, and what they notice."""
