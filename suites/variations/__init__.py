"""Programs of other suites with settings of lowering."""
