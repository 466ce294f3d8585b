"""Walks over graphs: exir's passes and verifiers call every operator of a graph on fake tensors.

What an operator makes of them is kept (``faked``), told by ``kinds``, and a delegate's are called
without a module of its program (``delegated``); arguments are walked with fewer questions
(``replay``). A walk that changes nothing is skipped (``retracing``), also where that takes asking
the pass (``rehearsal``). Arm's propagation of views and permutes walks once (``propagation``), and
so does a verifier that has seen a graph or its calls (``verifying``). What a graph cannot match is
not looked for (``unmatched``).
"""
