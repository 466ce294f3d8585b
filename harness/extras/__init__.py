"""Tools that no test run needs: fuzzing, and runs on other releases of ExecuTorch."""
