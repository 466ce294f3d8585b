"""Cases that are difficult for the Metal delegate's generated code and runtime kernels."""
