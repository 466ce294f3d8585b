"""MLX: lowered on any host, the delegate's own payload executed with ``mlx.core``.

In the order the data flows: ``codegen.py`` completes executorch's Python package where its wheel
ships it incomplete, so that programs can be lowered; ``quantization.py`` makes the weights and
``weights.py`` finds them in the program; ``payload/`` reads and verifies what was lowered;
``execution/`` runs it; ``listing.py`` shows it; ``backend.py`` has the recipes.
"""

from backends.mlx.backend import BACKEND

__all__ = ["BACKEND"]
