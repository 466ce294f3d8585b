"""How a result is judged: the oracle, the bound that the arithmetic allows, and the verdict.

``formats/`` says what encoded numbers mean, ``error_model/`` where and by how much single
operators err, ``figures/`` what is measured of an output. Imports the vocabulary, ``record`` and
``execution``.
"""
