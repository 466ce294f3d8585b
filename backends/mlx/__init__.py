"""The MLX backend: lowers programs on any host and executes their payloads with ``mlx.core``.

In the order of the data flow: ``codegen.py`` generates the Python modules that executorch's wheel
lacks, so that programs can be lowered; ``quantization.py`` quantizes weights, and ``weights.py``
finds them in the program; ``payload/`` reads and verifies a payload; ``execution/`` runs it;
``listing.py`` prints it; ``backend.py`` defines the recipes.
"""

from backends.mlx.backend import BACKEND

__all__ = ["BACKEND"]
