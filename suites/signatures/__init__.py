"""What a module may be beside a function of tensors: inputs by name, trees of them, what is no
tensor, and state."""
