"""Tests of what a backend out of tree may do."""
