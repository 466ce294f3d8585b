"""Signatures of modules: named inputs, nested inputs, inputs that are not tensors, and state."""
