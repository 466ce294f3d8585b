"""Cases of features that only the MLX delegate has."""
