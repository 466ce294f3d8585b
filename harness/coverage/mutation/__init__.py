"""Whether cells notice mistakes in the vendors' lowering code: mutation testing.

``operators`` lists the mutants of a file, ``choose`` picks a sample and the cells that execute each
mutant, ``worker`` runs these cells in forked processes that have the mutated function, and
``campaign`` classifies the results and writes them to a folder. docs/mutation.md explains them.
"""
