"""What a backend takes of a lowered program: delegates, delegated nodes and their calls."""
