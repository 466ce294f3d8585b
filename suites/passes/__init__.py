"""Graph passes: programs that are lowered with an added or removed pass."""
