"""Anybody's own model on every target, now: no suite, no layout of folders.

``sources`` finds the model that a command names, ``dynamic`` lets its dimensions vary, ``cases``
makes cases of it and of its inputs, ``check`` runs them; ``worker`` does so in a process of its
own, which ``supervisor`` starts again when a backend kills it. Imports the pipeline and what is
below.
"""
