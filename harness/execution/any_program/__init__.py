"""Programs that others emitted: what is in one, which inputs fit it, and who runs it here.

Backends are asked for by the delegates that a program names. Nothing of a program is executed in
this process: :mod:`harness.execution.foreign_programs` has a child for that.
"""
