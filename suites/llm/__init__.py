"""Operators and models of ``executorch.extension.llm`` and ``executorch.kernels.quantized``."""
