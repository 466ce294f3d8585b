"""The CoreML backend: coremltools lowers programs, and kernels in torch execute them.

In the order of the data flow: ``quiet.py`` imports the converter without its progress bars;
``quantization.py`` quantizes before export; ``recipes.py`` and ``settings.py`` are the targets;
``payload/`` reads and verifies a payload; ``execution/`` runs its program with ``kernels/``;
``weights.py`` checks stored weights; ``backend.py`` is the backend.
"""

from backends.coreml.backend import BACKEND

__all__ = ["BACKEND"]
