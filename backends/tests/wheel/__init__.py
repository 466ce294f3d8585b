"""Tests of what the installed wheel of ExecuTorch offers."""
