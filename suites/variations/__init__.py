"""Programs of other suites with settings of lowering: export, edge dialect, partitioner, emission."""
