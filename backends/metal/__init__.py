"""The Metal backend: what Inductor generates for it, checked and executed on any host.

In the order the data flows: ``generation/`` makes wrapper and shaders, ``cpp/`` reads the wrapper,
``machine/`` executes it; ``contract/`` says what the Metal runtime makes of each call,
``fallbacks/`` stands in for its own kernels, ``host/`` compiles and runs the shaders;
``delegate.py`` hands tensors in and out, ``inspection.py`` shows them, ``backend.py`` has the
recipes. MLX's own kernels are compiled by ``host/``, so that importing that imports no more.
"""
