"""Explain failures and fallback nodes of a program.

``rejections`` records why partitioners rejected nodes, ``failing_node`` and ``model_frames`` find
the node and the line of the model at which a stage failed, and ``refusal`` checks whether
ExecuTorch itself does not support the program. ``inspection`` prints a cell's program as its
backend describes it.
"""
