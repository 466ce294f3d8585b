"""Operators of the core ATen opset, a module per group; ``Case.op`` is the ATen name."""
