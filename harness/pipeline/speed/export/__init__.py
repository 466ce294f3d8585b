"""From an exported program to an edge program: what each target of a case would make again.

``tables`` of decompositions are made once; a program is made ``functional`` and decomposed
(``decomposing``) once for the targets that ask for the same, and so is its ``edge`` program. What
is traced all the same is traced without writing to torch's class of modules (``tracing``).
"""
