"""Check a model on targets without a suite.

``model_sources`` loads the model that a command names, ``dynamic_dimensions`` exports it with
dynamic dimensions, ``cases`` makes cases of the model and its inputs, and ``check`` runs them.
``worker`` does so in a worker process, which ``supervisor`` restarts when a backend ends it.
Imports the pipeline and lower packages.
"""
