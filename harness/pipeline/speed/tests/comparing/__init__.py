"""Serialized programs with and without the parts of speed, compared byte for byte."""
