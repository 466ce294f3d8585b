"""The Metal backend: checks and executes Inductor's generated code on any host.

In the order of the data flow: ``generation/`` generates wrapper and shaders, ``cpp/`` parses the
wrapper, ``machine/`` executes it; ``contract/`` checks each call against the rules of the Metal
runtime, ``fallbacks/`` implements the runtime's own kernels, ``host/`` compiles and runs shaders;
``delegate.py`` passes tensors in and out, ``inspection.py`` prints a cell, ``backend.py`` defines
the recipes. The MLX backend uses ``host/``, so ``host/`` imports nothing else of this package.
"""
