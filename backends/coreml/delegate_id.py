"""The delegate's name; imported without torch."""

DELEGATE = "CoreMLBackend"
"""The delegate's name in programs and in the runtime's registry."""
