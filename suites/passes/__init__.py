"""Graph passes: programs that are lowered with a pass more or less."""
