"""What the Metal delegate's generated code and its runtime's kernels find difficult."""
