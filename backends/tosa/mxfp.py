"""Linear layers and 2-d convolutions in the OCP MX formats, as the Arm backend multiplies them.

A format is called on a module before export. Each layer that fits becomes the operator
``tosa_mxfp::linear`` or ``tosa_mxfp::conv2d``, which holds encoded weights; the backend lowers
it to ``CAST_TO_BLOCK_SCALED`` for the activation, in the same format, and
``MATMUL_T_BLOCK_SCALED`` or ``CONV2D_BLOCK_SCALED``. Both come from
``executorch.backends.arm.ao_ext``, whose import registers the operators.

===========  ========  =====================================================
format       codes     TOSA type of the codes; scales are FP8UE8M0 in all
===========  ========  =====================================================
mxfp4        E2M1      FP4E2M1
mxfp6_e2m3   E2M3      FP6E2M3
mxfp6_e3m2   E3M2      FP6E3M2
mxfp8_e4m3   E4M3      FP8E4M3
mxfp8_e5m2   E5M2      FP8E5M2
===========  ========  =====================================================

A block is 32 neighbours of a row of a linear weight, or 32 input channels at one place of a
convolution's kernel (OCP Microscaling Formats (MX) Specification 1.0, section 5).
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
    """An MX format, and by calling it the conversion to it.

    Attributes:
        name: as in the table above, which is the recipe's name, too.
        payload: TOSA's name of the type of the codes.
        bits: of one code.
        element: what ``MXFPOpConfig`` calls the format: a torch dtype, or a word of torchao.
    """

    name: str
    payload: str
    bits: int
    element: Callable[[], Any]

    def __call__(self, module: torch.nn.Module) -> torch.nn.Module:
        """Convert every layer that fits, in place; the others stay as they are.

        Upstream's ``to_mxfp`` replaces children only: a module that is itself a layer stays
        float without a word, and so does the second name of a layer that has two. Here each
        layer is converted once. Its further names get copies: of one buffer with two names, the
        second stays in the edge program, and executorch's scalar types have no float8_e8m0fnu
        (``exir/tensor.py``, ``scalar_type_enum``) to serialize it with.

        Args:
            module: float32 or bfloat16.

        Returns:
            The module itself, or its replacement when it is a layer.
        """
        fitting = [layer for layer in layers(module) if misfit(layer) is None]
        made = {layer: self._converted(layer) for layer in fitting}
        placed: set[torch.nn.Module] = set()
        for parent in list(module.modules()):
            for name, child in parent._modules.items():
                if child in made:
                    again = child in placed
                    parent._modules[name] = copy.deepcopy(made[child]) if again else made[child]
                    placed.add(child)
        return made.get(module, module)

    def unsupported(self, case: Case, built: Built) -> str | None:
        """Why a recipe of this format has nothing to say about a case, or None."""
        reasons = [misfit(layer) for layer in layers(built.module)]
        if None in reasons:
            return None
        found = "; ".join(dict.fromkeys(filter(None, reasons))) or "no linear layer or 2-d conv"
        return f"nothing to convert to {self.name}: {found}"

    def _converted(self, layer: torch.nn.Module) -> torch.nn.Module:
        import torch
        from executorch.backends.arm.ao_ext import MXFPOpConfig, to_mxfp

        holder = torch.nn.Sequential(layer)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This API is experimental")
            to_mxfp(holder, MXFPOpConfig(weight_dtype=self.element()))
        converted: torch.nn.Module = holder[0]
        if converted is layer:
            raise CaseError(f"to_mxfp left {type(layer).__name__} as it is")
        return converted


def layers(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Linear layers and 2-d convolutions, each once. A subclass may use its weight in other
    ways, which its replacement does not have: attention's output projection does."""
    import torch

    for part in module.modules():
        if type(part) in (torch.nn.Linear, torch.nn.Conv2d):
            yield part


def misfit(layer: Any) -> str | None:
    """Why a layer of :func:`layers` cannot be converted, or None when it can.

    The reasons are those of upstream's ``transform_linear_to_mxfp`` and
    ``transform_conv2d_to_mxfp``, and one that the latter forgets: it drops ``padding_mode``.
    """
    import torch

    dtype = str(layer.weight.dtype).removeprefix("torch.")
    if dtype not in _DTYPES:
        return f"weights are {dtype}, not {' or '.join(_DTYPES)}"
    if isinstance(layer, torch.nn.Linear):
        return _uneven(f"Linear in_features={layer.in_features}", layer.in_features)
    if layer.groups != 1:
        return f"Conv2d groups={layer.groups}, CONV2D_BLOCK_SCALED has no groups"
    if isinstance(layer.padding, str):
        return f"Conv2d padding={layer.padding!r} is not given in numbers"
    if layer.padding_mode != "zeros":
        return f"Conv2d padding_mode={layer.padding_mode!r} is not zeros"
    return _uneven(f"Conv2d in_channels={layer.in_channels}", layer.in_channels)


def _uneven(what: str, length: int) -> str | None:
    return f"{what} is no multiple of the block size {BLOCK}" if length % BLOCK else None


def _torch(name: str) -> Any:
    import torch

    return getattr(torch, name)


# torch has no types of 6 bits; torchao names them by these words.
FORMATS = {
    made.name: made
    for made in (
        BlockFormat("mxfp4", "FP4E2M1", 4, lambda: _torch("float4_e2m1fn_x2")),
        BlockFormat("mxfp6_e2m3", "FP6E2M3", 6, lambda: "fp6_e2m3"),
        BlockFormat("mxfp6_e3m2", "FP6E3M2", 6, lambda: "fp6_e3m2"),
        BlockFormat("mxfp8_e4m3", "FP8E4M3", 8, lambda: _torch("float8_e4m3fn")),
        BlockFormat("mxfp8_e5m2", "FP8E5M2", 8, lambda: _torch("float8_e5m2")),
    )
}
