"""Programs of several delegates: of one backend, of two, and inside control flow."""
