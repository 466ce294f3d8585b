"""Programs of other suites, varied by settings of lowering or by storing their operands."""
