"""Weights of linear and embedding layers in the delegate's three quantized formats.

A format is called on a module before export, as one calls ``torchao.quantization.quantize_``:
each weight becomes a tensor subclass that exports as a decoding operator of torchao, which the
delegate fuses with the layer behind it into one instruction (``QuantizedMatmulNode``; for an
embedding ``TakeNode`` and ``DequantizeNode``).

======  =========================  =====  ============================================  ==========
format  codes                      block  scale                                         mode
======  =========================  =====  ============================================  ==========
int4    signed integers, -8 to 7   32     float32, symmetric, fitted by half-quadratic  affine
                                          optimization
mxfp8   E4M3                       32     power of two (E8M0)                           mxfp8
nvfp4   E2M1                       16     E4M3, and one float32 for the whole weight    nvfp4
======  =========================  =====  ============================================  ==========

A block is a run of a row; its length has to divide the row's. Sources: what executorch's
``extension/llm/export/{quantize,mx,nvfp4}.py`` applies for its own MLX models; OCP Microscaling
Formats (MX) Specification 1.0; NVIDIA's NVFP4, which adds the second level of scales.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from harness import Built, Case


@dataclass(frozen=True)
class Format:
    """A weight format, and by calling it the conversion to it.

    Attributes:
        name: as in the table above.
        block: how many neighbours of a row share a scale.
        rows: what the number of rows has to be a multiple of.
        dtypes: names of what torchao converts from.
        config: makes torchao's configuration.
        bits: of one code.
        mode: the delegate's word for how codes are decoded.
        element: format of one code.
        registered_by: the module whose import registers the operator that decodes it.
        experts: whether the delegate multiplies by gathered experts in this format.
    """

    name: str
    block: int
    rows: int
    dtypes: tuple[str, ...]
    config: Callable[[], Any]
    bits: int
    mode: str
    element: str
    registered_by: str
    experts: bool = False

    def __call__(self, module: torch.nn.Module) -> torch.nn.Module:
        """Quantize every weight that fits, in place; the others stay as they are.

        A weight that several layers share is quantized once and stays shared.

        Args:
            module: float32, float16 or bfloat16; its packed ``SwitchLinear`` experts count.

        Returns:
            The module itself.
        """
        if self.experts:
            for experts in _packed_experts(module):
                self._convert_experts(experts)
        done: dict[torch.nn.Parameter, torch.nn.Parameter] = {}
        for layer in _layers(module):
            if self.fits(layer.weight):
                if layer.weight not in done:
                    done[layer.weight] = self._converted(layer)
                layer.weight = done[layer.weight]
        return module

    def fits(self, weight: torch.Tensor) -> bool:
        """Whether a weight of shape (rows, columns) can have this format."""
        rows, columns = weight.shape[-2:]
        return (
            columns % self.block == 0
            and rows % self.rows == 0
            and _name(weight.dtype) in self.dtypes
        )

    def unsupported(self, case: Case, built: Built) -> str | None:
        """Why a recipe of this format has nothing to say about a case, or None."""
        weights = [layer.weight for layer in _layers(built.module)]
        if self.experts:
            weights += [experts.weight.mT for experts in _packed_experts(built.module)]
        if any(self.fits(weight) for weight in weights):
            return None
        return (
            f"nothing to quantize: {self.name} takes linear and embedding weights of "
            f"{', '.join(self.dtypes)} "
            f"with rows in multiples of {self.rows} and columns of {self.block}"
        )

    def _converted(self, layer: Any) -> torch.nn.Parameter:
        """The quantized weight of a layer, which keeps its own."""
        from torchao.quantization import quantize_

        original = layer.weight
        quantize_(layer, self.config(), filter_fn=lambda part, _: part is layer)
        quantized: torch.nn.Parameter = layer.weight
        layer.weight = original
        return quantized

    def _convert_experts(self, packed: Any) -> None:
        """Take packed float experts apart, quantize each, and pack them again."""
        if not self.fits(packed.weight.mT):
            return
        import torch

        linears = []
        for weight in packed.weight.mT:
            linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            linear.weight = torch.nn.Parameter(weight.contiguous(), requires_grad=False)
            linear.weight = self._converted(linear)
            linears.append(linear)
        del packed.weight
        packed.experts = torch.nn.ModuleList(linears)
        packed._packed = False
        packed.pack()


def _layers(module: torch.nn.Module) -> Iterator[Any]:
    """Linear and embedding layers. A subclass may use its weight in other ways, which need not
    work with a quantized one: attention's output projection does."""
    import torch

    for part in module.modules():
        if type(part) in (torch.nn.Linear, torch.nn.Embedding):
            yield part


def _packed_experts(module: torch.nn.Module) -> list[Any]:
    """Float expert layers of executorch, whose weights are stacked as (expert, in, out)."""
    # A module that has one has imported its class; nothing else needs it.
    switch = sys.modules.get("executorch.backends.mlx.llm.switch")
    return [
        part
        for part in module.modules()
        if switch is not None and isinstance(part, switch.SwitchLinear) and hasattr(part, "weight")
    ]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _int4_config() -> Any:
    import torch
    from torchao.quantization import IntxWeightOnlyConfig
    from torchao.quantization.granularity import PerGroup

    return IntxWeightOnlyConfig(
        weight_dtype=torch.int4,  # type: ignore[attr-defined]  # missing from the stubs
        granularity=PerGroup(32),
        intx_choose_qparams_algorithm="hqq_scale_only",
    )


def _mxfp8_config() -> Any:
    import torch
    from executorch.extension.llm.export.mx import ExportableMXConfig

    return ExportableMXConfig(elem_dtype=torch.float8_e4m3fn, block_size=32)


def _nvfp4_config() -> Any:
    from executorch.extension.llm.export.nvfp4 import ExportableNVFP4Config

    return ExportableNVFP4Config(use_per_tensor_scale=True)


_FLOAT = ("float32", "bfloat16")
_HALF = (*_FLOAT, "float16")

int4 = Format(
    "int4",
    32,
    rows=1,
    dtypes=_HALF,
    config=_int4_config,
    bits=4,
    mode="affine",
    element="int4",
    registered_by="torchao.quantization",
    experts=True,
)
mxfp8 = Format(
    "mxfp8",
    32,
    rows=1,
    dtypes=_HALF,
    config=_mxfp8_config,
    bits=8,
    mode="mxfp8",
    element="e4m3",
    registered_by="executorch.extension.llm.export.mx",
)
nvfp4 = Format(
    "nvfp4",
    16,
    rows=16,
    dtypes=_FLOAT,
    config=_nvfp4_config,
    bits=4,
    mode="nvfp4",
    element="e2m1",
    registered_by="executorch.extension.llm.export.nvfp4",
)
