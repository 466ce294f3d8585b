"""Quantize weights of linear and embedding layers to the delegate's formats.

A format is called on a module before export, like ``torchao.quantization.quantize_``. Each weight
becomes a tensor subclass that exports as a decoding operator of torchao. The delegate fuses that
operator with the next layer into one instruction (``QuantizedMatmulNode``; for an embedding
``TakeNode`` and ``DequantizeNode``).

======  =========================  =====  ============================================  ==========
format  codes                      block  scale                                         mode
======  =========================  =====  ============================================  ==========
intN    signed integers of N bits  32     float32, symmetric, fitted by half-quadratic  affine
                                          optimization; N is 2, 4, 5, 6 or 8
mxfp8   E4M3                       32     power of two (E8M0)                           mxfp8
nvfp4   E2M1                       16     E4M3, and one float32 for the whole weight    nvfp4
======  =========================  =====  ============================================  ==========

A block is a part of a row; its length must divide the row's. Sources: executorch's
``extension/llm/export/{quantize,mx,nvfp4}.py``, used for its own MLX models; OCP Microscaling
Formats (MX) Specification 1.0; NVIDIA's NVFP4, which adds the second level of scales.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from harness import Built, Case


@dataclass(frozen=True)
class MlxWeightFormat:
    """A weight format. Calling it converts a module.

    Attributes:
        name: the format in the table above.
        block: number of neighbouring elements of a row that share a scale.
        rows: the number of rows must be a multiple of this.
        dtypes: names of the dtypes that torchao can convert.
        config: makes torchao's configuration.
        bits: bits of one code.
        mode: the delegate's name of the decoding.
        element: format of one code.
        registered_by: the module whose import registers the decoding operator.
        experts: whether the delegate can multiply by gathered experts in this format.
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
        """Quantize every suitable weight in place.

        A weight that several layers share is quantized once and stays shared.

        Args:
            module: float32, float16 or bfloat16; packed ``SwitchLinear`` experts are included.

        Returns:
            The module itself.
        """
        if self.experts:
            for experts in _find_packed_experts(module):
                self._quantize_experts(experts)
        done: dict[torch.nn.Parameter, torch.nn.Parameter] = {}
        for layer in _find_layers(module):
            if self.can_quantize(layer.weight):
                if layer.weight not in done:
                    done[layer.weight] = self._quantize_weight(layer)
                layer.weight = done[layer.weight]
        return module

    def can_quantize(self, weight: torch.Tensor) -> bool:
        """Whether a weight of shape (rows, columns) can have this format."""
        rows, columns = weight.shape[-2:]
        return (
            columns % self.block == 0
            and rows % self.rows == 0
            and _dtype_name(weight.dtype) in self.dtypes
        )

    def unsupported(self, case: Case, built: Built) -> str | None:
        """Say why a recipe of this format cannot test a case; None when it can."""
        weights = [layer.weight for layer in _find_layers(built.module)]
        if self.experts:
            weights += [experts.weight.mT for experts in _find_packed_experts(built.module)]
        if any(self.can_quantize(weight) for weight in weights):
            return None
        return (
            f"nothing to quantize: {self.name} takes linear and embedding weights of "
            f"{', '.join(self.dtypes)} "
            f"with rows in multiples of {self.rows} and columns of {self.block}"
        )

    def _quantize_weight(self, layer: Any) -> torch.nn.Parameter:
        """Return a quantized copy of a layer's weight; the layer does not change."""
        from torchao.quantization import quantize_

        original = layer.weight
        quantize_(layer, self.config(), filter_fn=lambda part, _: part is layer)
        quantized: torch.nn.Parameter = layer.weight
        layer.weight = original
        return quantized

    def _quantize_experts(self, packed: Any) -> None:
        """Unpack packed float experts, quantize each, and pack them again."""
        if not self.can_quantize(packed.weight.mT):
            return
        import torch

        linears = []
        for weight in packed.weight.mT:
            linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            linear.weight = torch.nn.Parameter(weight.contiguous(), requires_grad=False)
            linear.weight = self._quantize_weight(linear)
            linears.append(linear)
        del packed.weight
        packed.experts = torch.nn.ModuleList(linears)
        packed._packed = False
        packed.pack()


def _find_layers(module: torch.nn.Module) -> Iterator[Any]:
    """Find linear and embedding layers.

    Subclasses are not included: other code may use their weight in ways that a quantized one does
    not support, as attention does with its output projection.
    """
    import torch

    for part in module.modules():
        if type(part) in (torch.nn.Linear, torch.nn.Embedding):
            yield part


def _find_packed_experts(module: torch.nn.Module) -> list[Any]:
    """Find executorch's float expert layers; their weights are stacked as (expert, in, out)."""
    # A module with such a layer has already imported the class.
    switch = sys.modules.get("executorch.backends.mlx.llm.switch")
    return [
        part
        for part in module.modules()
        if switch is not None and isinstance(part, switch.SwitchLinear) and hasattr(part, "weight")
    ]


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _make_affine_config(bits: int) -> Any:
    import torch
    from torchao.quantization import IntxWeightOnlyConfig
    from torchao.quantization.granularity import PerGroup

    return IntxWeightOnlyConfig(
        weight_dtype=getattr(torch, f"int{bits}"),
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

AFFINE = {
    f"int{bits}": MlxWeightFormat(
        f"int{bits}",
        32,
        rows=1,
        dtypes=_HALF,
        config=functools.partial(_make_affine_config, bits),
        bits=bits,
        mode="affine",
        element=f"int{bits}",
        registered_by="torchao.quantization",
        experts=bits == 4,
    )
    for bits in (2, 4, 5, 6, 8)
}
"""The formats of signed integers, by name.

MLX has kernels for 3 bits as well, but ExecuTorch 1.5.1 refuses such a weight
(``parse_dequant_node`` in ``backends/mlx/builder/op_helpers.py``).
"""

mxfp8 = MlxWeightFormat(
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
nvfp4 = MlxWeightFormat(
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
