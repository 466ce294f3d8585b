"""Cases of what only the MLX delegate has."""
