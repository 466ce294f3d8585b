"""Trained networks on real inputs, each with a metric of its task. Nightly.

Weights, photographs and the speech synthesizer come from packages of ``requirements.txt``, which
``tox -e trained`` installs; nothing is downloaded when a case is built. Where a package is missing,
its cells are ``unavailable`` and say so.
"""
