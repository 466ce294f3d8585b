"""Programs of the installed executorch's own tests."""
