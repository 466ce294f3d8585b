"""Tests of the models that suites take to the targets."""
