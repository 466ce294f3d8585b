"""Tensors as Python text: short ones as lists, others compressed, large ones in a file beside."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

BESIDE = "BESIDE"
"""What a script calls the file beside it."""

# Columns that a list may take; longer ones are compressed.
_WIDTH = 76

# Bytes of all tensors together above which a file beside the script holds the long ones.
_INLINE = 2**20


@dataclass
class Values:
    """The tensors of one script.

    Attributes:
        beside: what goes into the file beside the script, by name.
        is_packed: whether some tensor is written compressed.
        inline: bytes that are written into the script.
    """

    beside: dict[str, torch.Tensor] = field(default_factory=dict)
    is_packed: bool = False
    inline: int = 0

    def text(self, value: Any, indent: int = 0) -> str:
        """An expression that makes a value: a tensor, number, string or None.

        Args:
            value: what it makes.
            indent: columns before a line that follows.
        """
        if not isinstance(value, torch.Tensor):
            return literal(value)
        value = value.detach()
        order = list(value.dim_order()) if value.numel() else list(range(value.dim()))
        if order != sorted(order):
            memory = self.text(value.permute(order).contiguous(), indent)
            return f"{memory}.permute({[order.index(dim) for dim in range(len(order))]})"
        return self._dense(value.contiguous(), indent)

    def _dense(self, value: torch.Tensor, indent: int) -> str:
        dtype, shape = str(value.dtype), list(value.shape)
        if not value.numel():
            return f"torch.empty({shape}, dtype={dtype})"
        data = value.reshape(-1).view(torch.uint8).numpy().tobytes()
        # Of eight bits, numbers only where a list makes them again.
        if value.dtype.itemsize > 1 or value.dtype in _WHOLE:
            if value.numel() > 1 and data == data[: value.dtype.itemsize] * value.numel():
                return f"torch.full({shape}, {literal(value.flatten()[0].item())}, dtype={dtype})"
            listed = f"torch.tensor({literal(_listed(value))}, dtype={dtype})"
            if len(listed) <= _WIDTH:
                return listed
        packed = base64.b85encode(zlib.compress(data, 9)).decode()
        if self.inline + len(packed) > _INLINE:
            name = f"v{len(self.beside)}"
            self.beside[name] = value
            return f"{BESIDE}[{name!r}]"
        self.inline += len(packed)
        self.is_packed = True
        sizes = "".join(f", {size}" for size in shape)
        if len(packed) <= 60:
            return f"unpack({packed!r}, {dtype}{sizes})"
        pad = " " * (indent + 4)
        width = 92 - indent
        parts = (packed[start : start + width] for start in range(0, len(packed), width))
        lines = "\n".join(f"{pad}{part}" for part in parts)
        return f'unpack(\n{pad}r"""\n{lines}\n{pad}""",\n{pad}{dtype}{sizes},\n{" " * indent})'


_WHOLE = (torch.bool, torch.int8, torch.uint8)


def _listed(value: torch.Tensor) -> Any:
    """The numbers of a short tensor, float32 with as few digits as make the same ones."""
    if value.numel() > _WIDTH or value.dtype != torch.float32:
        return value.tolist() if value.numel() <= _WIDTH else "x" * _WIDTH
    short = value.double().apply_(lambda number: float(str(numpy.float32(number))))
    return (short if short.float().equal(value) else value).tolist()


def literal(value: Any) -> str:
    """A number, string, None, dtype or list of them, as Python text that makes the same."""
    if isinstance(value, float):
        return repr(value) if value - value == 0 else f'float("{value}")'
    if isinstance(value, complex):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    if isinstance(value, (list, tuple)):
        items = ", ".join(map(literal, value))
        if isinstance(value, list):
            return f"[{items}]"
        return f"({items},)" if len(value) == 1 else f"({items})"
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return str(value)
    text = repr(value)
    return f'"{text[1:-1]}"' if text[:1] == "'" and '"' not in text else text
