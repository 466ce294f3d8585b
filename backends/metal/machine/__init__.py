"""Execute a wrapper on the CPU, as the Metal runtime would on a device.

Modules: variables, memory, the runtime's functions, the encoder of its shaders. This package
imports ``cpp``, ``contract`` (types of calls) and ``host`` (runs shaders).
"""
