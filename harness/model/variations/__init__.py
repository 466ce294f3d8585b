"""What a target changes in its recipe: graph passes and settings."""
