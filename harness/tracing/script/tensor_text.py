"""Tensors as Python text: short ones as lists, others compressed, large ones in a separate file."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

TENSORS = "TENSORS"
"""Name of the variable that holds the tensors of the separate file."""

# Maximum columns of a list; longer ones are compressed.
_WIDTH = 76

# Bytes of tensors that a script contains; further long tensors go into a separate file.
_INLINE = 2**20


@dataclass
class ScriptTensors:
    """The tensors of one script.

    Attributes:
        external: the tensors of the separate file, by name.
        is_packed: whether some tensor is written compressed.
        inline: number of bytes that are written into the script.
    """

    external: dict[str, torch.Tensor] = field(default_factory=dict)
    is_packed: bool = False
    inline: int = 0

    def format(self, value: Any, indent: int = 0) -> str:
        """Return an expression that creates a value: a tensor, number, string or None.

        Args:
            value: the value.
            indent: indentation of continuation lines.
        """
        if not isinstance(value, torch.Tensor):
            return format_literal(value)
        value = value.detach()
        order = list(value.dim_order()) if value.numel() else list(range(value.dim()))
        if order != sorted(order):
            memory = self.format(value.permute(order).contiguous(), indent)
            return f"{memory}.permute({[order.index(dim) for dim in range(len(order))]})"
        return self._dense(value.contiguous(), indent)

    def _dense(self, value: torch.Tensor, indent: int) -> str:
        dtype, shape = str(value.dtype), list(value.shape)
        if not value.numel():
            return f"torch.empty({shape}, dtype={dtype})"
        data = value.reshape(-1).view(torch.uint8).numpy().tobytes()
        # One-byte floats as lists would not be exact; they are written compressed.
        if value.dtype.itemsize > 1 or value.dtype in _BYTE_DTYPES:
            if value.numel() > 1 and data == data[: value.dtype.itemsize] * value.numel():
                number = format_literal(value.flatten()[0].item())
                return f"torch.full({shape}, {number}, dtype={dtype})"
            listed = f"torch.tensor({format_literal(_to_list(value))}, dtype={dtype})"
            if len(listed) <= _WIDTH:
                return listed
        packed = base64.b85encode(zlib.compress(data, 9)).decode()
        if self.inline + len(packed) > _INLINE:
            name = f"v{len(self.external)}"
            self.external[name] = value
            return f"{TENSORS}[{name!r}]"
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


_BYTE_DTYPES = (torch.bool, torch.int8, torch.uint8)


def _to_list(value: torch.Tensor) -> Any:
    """Return the numbers of a short tensor, float32 with as few digits as give the same value."""
    if value.numel() > _WIDTH or value.dtype != torch.float32:
        return value.tolist() if value.numel() <= _WIDTH else "x" * _WIDTH
    short = value.double().apply_(lambda number: float(str(numpy.float32(number))))
    return (short if short.float().equal(value) else value).tolist()


def format_literal(value: Any) -> str:
    """Return a number, string, None, dtype or a list of these as a Python expression."""
    if isinstance(value, float):
        return repr(value) if value - value == 0 else f'float("{value}")'
    if isinstance(value, complex):
        return f"complex({format_literal(value.real)}, {format_literal(value.imag)})"
    if isinstance(value, (list, tuple)):
        items = ", ".join(map(format_literal, value))
        if isinstance(value, list):
            return f"[{items}]"
        return f"({items},)" if len(value) == 1 else f"({items})"
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return str(value)
    text = repr(value)
    return f'"{text[1:-1]}"' if text[:1] == "'" and '"' not in text else text
