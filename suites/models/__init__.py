"""Whole models, small, with random weights."""
