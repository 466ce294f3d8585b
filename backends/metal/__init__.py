"""The Metal backend: what Inductor generates for it, checked and executed on any host.

In the order the data flows: ``generate.py`` (with ``upstream``, ``pretend``, ``composite``,
``host_tensor``, ``lowbit``) makes wrapper and shaders into ``generated.py``'s data; ``wrapper.py``
(``cpp_*``) reads the wrapper, ``machine.py`` (``interpreter``, ``values``, ``arithmetic``,
``headers``, ``memory``, ``shims``, ``encoder``, ``calls``) executes it; ``contract/`` says what the
Metal runtime makes of each call, ``fallbacks/`` stands in for its own kernels, ``host/`` compiles
and runs the shaders; ``delegate.py`` hands tensors in and out, ``inspection.py`` prints.
"""

from backends.metal.backend import BACKEND

__all__ = ["BACKEND"]
