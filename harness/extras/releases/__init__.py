"""Other releases of ExecuTorch beside the installed one: environments, runs in each, bisection.

``available`` says what there is to install, ``environment`` makes a place for one that shares
everything else with this environment, ``running`` runs the same cells in several, ``bisecting``
finds the first release in which a cell is otherwise. Imports no torch: what runs, runs in
processes of those environments.
"""
