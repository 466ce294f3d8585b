"""Layers in the block-scaled formats, on every backend that has them."""
