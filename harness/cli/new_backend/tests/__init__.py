"""Tests of backends in other packages."""
