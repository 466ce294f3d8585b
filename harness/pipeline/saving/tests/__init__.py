"""Tests of the files of a cell."""
