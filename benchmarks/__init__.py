"""Benchmarks of the harness, as ratios within one run because machines are noisy; test models."""
