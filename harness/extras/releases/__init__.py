"""Runs on other releases of ExecuTorch: environments, comparison and bisection.

``available`` lists installable releases, ``environment`` creates an environment that shares all
other packages with this one, ``run_releases`` runs the same cells on several releases, ``bisect``
finds the first release in which a cell changed. Imports no torch: cells run in processes of those
environments.
"""
