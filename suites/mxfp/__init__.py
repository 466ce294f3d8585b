"""Layers in block-scaled formats, on every backend that supports them."""
