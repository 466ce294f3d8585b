"""Convert linear layers and 2-d convolutions to the OCP MX formats of the Arm backend.

A format is called on a module before export. It replaces each suitable layer by the operator
``tosa_mxfp::linear`` or ``tosa_mxfp::conv2d`` with encoded weights. The backend lowers the operator
to ``CAST_TO_BLOCK_SCALED`` for the activation, in the same format, and to
``MATMUL_T_BLOCK_SCALED`` or ``CONV2D_BLOCK_SCALED``. The operators come from
``executorch.backends.arm.ao_ext``; its import registers them.

===========  ========  =====================================================
format       codes     TOSA type of the codes; scales are FP8UE8M0 in all
===========  ========  =====================================================
mxfp4        E2M1      FP4E2M1
mxfp6_e2m3   E2M3      FP6E2M3
mxfp6_e3m2   E3M2      FP6E3M2
mxfp8_e4m3   E4M3      FP8E4M3
mxfp8_e5m2   E5M2      FP8E5M2
===========  ========  =====================================================

A block is 32 neighbouring elements in a row of a linear weight, or 32 input channels at one
position of a convolution's kernel (OCP Microscaling Formats (MX) Specification 1.0, section 5).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness import CaseError

if TYPE_CHECKING:
    import torch

    from harness import Built, Case

BLOCK = 32
_DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class BlockFormat:
    """An MX format. Calling it converts a module.

    Attributes:
        name: the format in the table above, also the recipe's name.
        payload: TOSA's name of the type of the codes.
        bits: bits of one code.
        element: returns the format for ``MXFPOpConfig``: a torch dtype, or torchao's name.
    """

    name: str
    payload: str
    bits: int
    element: Callable[[], Any]

    def __call__(self, module: torch.nn.Module) -> torch.nn.Module:
        """Convert every suitable layer in place.

        Upstream's ``to_mxfp`` replaces children only: it silently skips a module that is itself a
        layer, and the second name of a layer with two. Here each layer is converted once, and its
        further names get copies. Without copies a buffer with two names stays in the edge program,
        and executorch cannot serialize its dtype: its scalar types have no float8_e8m0fnu
        (``exir/tensor.py``, ``scalar_type_enum``).

        Args:
            module: float32 or bfloat16.

        Returns:
            The module itself, or its replacement when it is a layer.
        """
        suitable = [layer for layer in find_layers(module) if explain_misfit(layer) is None]
        replacements = {layer: self._convert_layer(layer) for layer in suitable}
        placed: set[torch.nn.Module] = set()
        for parent in list(module.modules()):
            for name, child in parent._modules.items():
                if child in replacements:
                    new = replacements[child]
                    parent._modules[name] = copy.deepcopy(new) if child in placed else new
                    placed.add(child)
        return replacements.get(module, module)

    def unsupported(self, case: Case, built: Built) -> str | None:
        """Say why a recipe of this format cannot test a case; None when it can."""
        reasons = [explain_misfit(layer) for layer in find_layers(built.module)]
        if None in reasons:
            return None
        reason = "; ".join(dict.fromkeys(filter(None, reasons))) or "no linear layer or 2-d conv"
        return f"nothing to convert to {self.name}: {reason}"

    def _convert_layer(self, layer: torch.nn.Module) -> torch.nn.Module:
        import torch
        from executorch.backends.arm.ao_ext import MXFPOpConfig, to_mxfp

        holder = torch.nn.Sequential(layer)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This API is experimental")
            to_mxfp(holder, MXFPOpConfig(weight_dtype=self.element()))
        converted: torch.nn.Module = holder[0]
        if converted is layer:
            raise CaseError(f"to_mxfp did not convert {type(layer).__name__}")
        return converted


def find_layers(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Find linear layers and 2-d convolutions, each once.

    Subclasses are not included: other code may read their weight, which the replacement lacks, as
    attention reads that of its output projection.
    """
    import torch

    for part in module.modules():
        if type(part) in (torch.nn.Linear, torch.nn.Conv2d):
            yield part


def explain_misfit(layer: Any) -> str | None:
    """Say why a layer of :func:`find_layers` cannot be converted; None when it can.

    The checks follow upstream's ``transform_linear_to_mxfp`` and ``transform_conv2d_to_mxfp``. The
    check of ``padding_mode`` is ours: the latter drops it.
    """
    import torch

    dtype = str(layer.weight.dtype).removeprefix("torch.")
    if dtype not in _DTYPES:
        return f"weights are {dtype}, not {' or '.join(_DTYPES)}"
    if isinstance(layer, torch.nn.Linear):
        return _check_block_multiple(f"Linear in_features={layer.in_features}", layer.in_features)
    if layer.groups != 1:
        return f"Conv2d groups={layer.groups}, but CONV2D_BLOCK_SCALED has no groups"
    if isinstance(layer.padding, str):
        return f"Conv2d padding={layer.padding!r} is not a number"
    if layer.padding_mode != "zeros":
        return f"Conv2d padding_mode={layer.padding_mode!r} is not zeros"
    return _check_block_multiple(f"Conv2d in_channels={layer.in_channels}", layer.in_channels)


def _check_block_multiple(parameter: str, length: int) -> str | None:
    return f"{parameter} is no multiple of the block size {BLOCK}" if length % BLOCK else None


def _torch_dtype(name: str) -> Any:
    import torch

    return getattr(torch, name)


# torch has no 6-bit dtypes; torchao uses these strings.
FORMATS = {
    each.name: each
    for each in (
        BlockFormat("mxfp4", "FP4E2M1", 4, lambda: _torch_dtype("float4_e2m1fn_x2")),
        BlockFormat("mxfp6_e2m3", "FP6E2M3", 6, lambda: "fp6_e2m3"),
        BlockFormat("mxfp6_e3m2", "FP6E3M2", 6, lambda: "fp6_e3m2"),
        BlockFormat("mxfp8_e4m3", "FP8E4M3", 8, lambda: _torch_dtype("float8_e4m3fn")),
        BlockFormat("mxfp8_e5m2", "FP8E5M2", 8, lambda: _torch_dtype("float8_e5m2")),
    )
}
