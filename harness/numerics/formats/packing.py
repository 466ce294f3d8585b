"""Unpack codes of fewer than 8 bits."""

from __future__ import annotations

import numpy


def unpack_codes(data: bytes, bits: int) -> bytes:
    """Unpack codes to one byte each, in the low bits.

    Codes follow each other from the lowest bit of the first byte up, as TOSA serializes
    constants (``TosaTensor.data`` in ``tosa.fbs``), torchao packs E2M1 and MLX packs words.

    Args:
        data: the packed bytes; an incomplete code at their end is dropped.
        bits: width of one code, 1 to 8.
    """
    if bits == 8:
        return data
    stream = numpy.unpackbits(numpy.frombuffer(data, numpy.uint8), bitorder="little")
    whole = stream[: len(stream) // bits * bits].reshape(-1, bits)
    return numpy.packbits(whole, axis=1, bitorder="little").tobytes()
