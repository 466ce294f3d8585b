"""What a record keeps of a program: its dynamic dimensions and its encoded weights. No torch."""

from __future__ import annotations

import base64
import hashlib

import msgspec


class Dimension(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension of an input that varies.

    ``low`` and ``high`` are the range that the exported program declares, ``high`` None for no
    maximum. ``sizes`` has the size in each call, in order: those of the case, then those that were
    added so that the ends of the range are executed.
    """

    input: str
    dim: int
    low: int
    high: int | None
    sizes: list[int]

    def __str__(self) -> str:
        return f"{self.input}:{self.dim}"

    @property
    def span(self) -> str:
        """The range in words, ``1 to 16`` or ``1 and more``."""
        return f"{self.low} and more" if self.high is None else f"{self.low} to {self.high}"


class Encoding(msgspec.Struct, frozen=True, kw_only=True):
    """A weight as the program carries it, in a layout that backends share.

    Codes are one byte each, row after row of ``columns``; scales are one byte a block. The
    ``*_sha256`` are of these bytes; ``codes`` and ``scales`` are the bytes themselves in base64,
    kept for cases whose backends are compared.
    """

    parameter: str
    element: str
    block: int
    columns: int
    codes_sha256: str
    scales_sha256: str
    codes: str | None = None
    scales: str | None = None

    @classmethod
    def of(
        cls, parameter: str, element: str, block: int, columns: int, codes: bytes, scales: bytes
    ) -> Encoding:
        """The record of a weight, bytes included.

        Args:
            parameter: name of the weight in the module.
            element: format of the codes, such as ``e4m3``.
            block: codes that share a scale.
            columns: codes of a row.
            codes: one byte each.
            scales: one byte a block.
        """
        return cls(
            parameter=parameter,
            element=element,
            block=block,
            columns=columns,
            codes_sha256=hashlib.sha256(codes).hexdigest(),
            scales_sha256=hashlib.sha256(scales).hexdigest(),
            codes=base64.b64encode(codes).decode(),
            scales=base64.b64encode(scales).decode(),
        )

    def brief(self) -> Encoding:
        """The same without the bytes."""
        return msgspec.structs.replace(self, codes=None, scales=None)
