"""What a module may be called with: inputs by name, trees of them, and what is no tensor."""
