"""Executes a wrapper on the CPU, as the Metal runtime would on a device.

Variables, memory, the runtime's functions, the encoder of its shaders. Imports ``cpp``,
``contract`` (what a call is) and ``host`` (which runs the shaders).
"""
