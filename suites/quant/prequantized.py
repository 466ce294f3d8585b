"""Modules whose weights torchao quantizes before lowering, on the float recipes.

The reference is the exported program with unpacked weights, computed by torchao's operators.
Weight-only formats decode the weights and multiply in float. ``int8_da_*`` formats quantize
activations dynamically by row, which XNNPACK's dynamic kernels execute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.nn import Embedding, Linear, ReLU, Sequential

from harness import Case, registry
from suites.build import Input, ints, nn_case, randn

_BATCH = torch.export.Dim("batch", min=1, max=16)
_XNNPACK, _MLX = "xnnpack:fp32", "mlx:fp32|mlx:bf16"

Config = Callable[[], Any]


def _int8() -> Any:
    from torchao.quantization import Int8WeightOnlyConfig

    return Int8WeightOnlyConfig()


def _intx(bits: int, group: int = 0) -> Config:
    """Weight-only quantization, one code per byte, with a scale per row or per group of a row."""

    def make() -> Any:
        from torchao.quantization import IntxWeightOnlyConfig

        return IntxWeightOnlyConfig(**_codes(bits, group, "granularity"))

    return make


def _dynamic(bits: int, group: int = 0) -> Config:
    """Weight quantization with dynamic int8 activations."""

    def make() -> Any:
        from torchao.quantization import Int8DynamicActivationIntxWeightConfig

        return Int8DynamicActivationIntxWeightConfig(**_codes(bits, group, "weight_granularity"))

    return make


def _codes(bits: int, group: int, granularity: str) -> dict[str, Any]:
    from torchao.quantization.granularity import PerAxis, PerGroup

    return {
        "weight_dtype": {4: torch.int4, 8: torch.int8}[bits],  # type: ignore[attr-defined]
        granularity: PerGroup(group) if group else PerAxis(0),
    }


def _mxfp8() -> Any:
    from executorch.extension.llm.export.mx import ExportableMXConfig

    return ExportableMXConfig(elem_dtype=torch.float8_e4m3fn, block_size=32)


def _nvfp4() -> Any:
    from executorch.extension.llm.export.nvfp4 import ExportableNVFP4Config

    return ExportableNVFP4Config(use_per_tensor_scale=True)


def _float8() -> Any:
    from torchao.quantization import Float8WeightOnlyConfig

    return Float8WeightOnlyConfig()


def _case(
    name: str,
    targets: str,
    config: Config,
    module: Callable[[], torch.nn.Module],
    *inputs: Input,
    layers: type[torch.nn.Module] = Linear,
    **options: Any,
) -> Case:
    def make() -> torch.nn.Module:
        from torchao.quantization import quantize_

        # Completes executorch's package, which contains the exportable formats.
        registry.backend("mlx").availability()
        made = module().eval()
        quantize_(made, config(), filter_fn=lambda part, _: isinstance(part, layers))
        return made

    case = nn_case(f"prequantized/{name}", make, *inputs, tags=["weights"], **options)
    return replace(case, targets=targets)


class _Tied(torch.nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Linear(64, 64), Linear(64, 64)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class _Decoder(torch.nn.Module):
    """A language model without attention, of which only some layers are quantized."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embedding(50, 64)
        self.norm = torch.nn.LayerNorm(64)
        self.up, self.down = Linear(64, 128, bias=False), Linear(128, 64, bias=False)
        self.head = Linear(64, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        hidden = torch.nn.functional.silu(self.up(self.norm(x)))
        return self.head(x + self.down(hidden))


class _ScaledConvolution(torch.nn.Module):
    """A convolution in 8 bits whose input is scaled by channel, and quantized as it comes.

    The quantize operators are written out, as a module that was quantized elsewhere has them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randint(-127, 127, (8, 8, 3, 3), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(8) * 0.02 + 0.001)
        self.register_buffer("zero_points", torch.zeros(8, dtype=torch.int64))
        self.register_buffer("factor", torch.rand(1, 8, 1, 1) + 0.5)
        self.register_buffer("term", torch.rand(1, 8, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ops, ends = torch.ops.quantized_decomposed, (-128, 127)
        x = torch.relu(x * self.factor + self.term)
        grid = (*ops.choose_qparams.tensor(x, *ends, 1e-5, torch.int8), *ends, torch.int8)
        x = ops.dequantize_per_tensor.tensor(ops.quantize_per_tensor.tensor(x, *grid), *grid)
        weight = ops.dequantize_per_channel(
            self.codes, self.scales, self.zero_points, 0, -127, 127, torch.int8
        )
        return torch.nn.functional.conv2d(x, weight, padding=1)


def _layer() -> torch.nn.Module:
    return Linear(64, 32)


def _no_bias() -> torch.nn.Module:
    return Linear(64, 32, bias=False)


def _mlp() -> torch.nn.Module:
    return Sequential(Linear(64, 64), ReLU(), Linear(64, 32))


CASES: list[Case] = [
    _case("int8_rows", f"portable:*|{_XNNPACK}|tosa:fp|{_MLX}", _int8, _layer, randn(4, 64)),
    _case("intx4_groups", f"portable:*|{_XNNPACK}|tosa:fp|{_MLX}", _intx(4, 32), _layer,
          randn(4, 64)),
    _case("intx8_rows_no_bias", f"{_XNNPACK}|{_MLX}", _intx(8), _no_bias, randn(2, 4, 64)),
    _case("intx4_embedding", _MLX, _intx(4, 32), lambda: Embedding(50, 64), ints(0, 50, 2, 5),
          layers=Embedding),
    # MLX has no kernel for groups of these sizes, and none of its groups divides them.
    *(
        _case(f"intx8_groups_of_{size}", "mlx:fp32", _intx(8, size), lambda: Linear(72, 16),
              randn(4, 72))
        for size in (8, 24)
    ),
    _case("int8_da_intx4_groups", f"{_XNNPACK}|mlx:fp32", _dynamic(4, 32), _layer, randn(4, 64)),
    _case("int8_da_intx4_rows", _XNNPACK, _dynamic(4), _no_bias, randn(2, 4, 64)),
    _case("int8_da_intx8_rows", _XNNPACK, _dynamic(8), _mlp, randn(4, 64)),
    _case("int8_da_dynamic_batch", _XNNPACK, _dynamic(4, 32), _layer, randn(4, 64),
          dynamic_shapes=[{0: _BATCH}], calls=[[randn(1, 64)], [randn(16, 64)]]),
    _case("int8_da_tied", _XNNPACK, _dynamic(4, 32), _Tied, randn(4, 64)),
    _case("int8_da_decoder", _XNNPACK, _dynamic(4, 32), _Decoder, ints(0, 50, 2, 5)),
    replace(
        nn_case("prequantized/dynamic_convolution_behind_scale", _ScaledConvolution,
                randn(1, 8, 6, 6), tags=["weights"]),
        targets=_XNNPACK,
    ),
    _case("mxfp8_decoder", _MLX, _mxfp8, _Decoder, ints(0, 50, 2, 5)),
    _case("nvfp4", _MLX, _nvfp4, _layer, randn(4, 64)),
    _case("float8_rows", "portable:*|mlx:fp32", _float8, _layer, randn(4, 64)),
]  # fmt: skip
