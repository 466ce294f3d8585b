"""Tools that test runs do not need: fuzzing, and runs on other releases of ExecuTorch."""
