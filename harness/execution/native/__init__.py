"""Execution of programs, kernels and delegates by this host's ExecuTorch runtime, and its log."""
