"""Quantize before export: torchao's weight formats, and the PT2E quantizer of CoreML.

The formats are those of executorch's ``backends/apple/coreml/recipes/coreml_recipe_provider.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from backends.coreml.patterns import keep_patterns
from backends.coreml.quiet import import_compiler
from harness.backend_api import require_annotations

if TYPE_CHECKING:
    import torch

    from harness import Built, Case
    from harness.backend_api import BlockQuantizedTensor, Lowered, OperatorSemantics


@dataclass(frozen=True)
class CoremlWeightFormat:
    """A format of the weights of linear layers. Calling it converts a module.

    Attributes:
        name: the recipe's name.
        element: type of the stored codes, as MIL names it.
        operation: the MIL operation that decodes them.
        columns: divisor of the number of columns that the format needs.
        make_config: makes torchao's configuration.
    """

    name: str
    element: str
    operation: str
    columns: int
    make_config: Callable[[], Any]

    def __call__(self, module: torch.nn.Module) -> torch.nn.Module:
        """Quantize the weight of every suitable linear layer in place.

        Args:
            module: float32.

        Returns:
            The module itself.
        """
        from torchao.quantization import quantize_

        import_compiler()  # coremltools logs when torchao's codebooks import it
        config = self.make_config()
        quantize_(module, config, filter_fn=lambda part, _: self._can_quantize(part))
        return module

    def unsupported(self, case: Case, built: Built) -> str | None:
        """Return why a recipe of this format cannot test a case, or None."""
        if any(map(self._can_quantize, built.module.modules())):
            return None
        return (
            f"nothing to quantize: {self.name} takes weights of linear layers with columns in "
            f"multiples of {self.columns}"
        )

    def verify(self, lowered: Lowered) -> str | None:
        """Return a problem unless the payloads store every quantized weight in this format."""
        from backends.coreml import weights

        return weights.find_problem(lowered, self.element, self.operation)

    def _can_quantize(self, part: torch.nn.Module) -> bool:
        """Whether a module is a linear layer whose weight can have this format.

        Subclasses are not included: attention reads the weight of its output projection directly.
        """
        import torch

        return type(part) is torch.nn.Linear and part.weight.shape[-1] % self.columns == 0


def _make_integer_config(bits: int, group: int) -> Any:
    import torch
    from torchao.quantization import IntxWeightOnlyConfig
    from torchao.quantization.granularity import PerAxis, PerGroup

    return IntxWeightOnlyConfig(
        weight_dtype=getattr(torch, f"int{bits}"),
        granularity=PerGroup(group) if group else PerAxis(0),
    )


def _make_integer_format(name: str, bits: int, group: int) -> CoremlWeightFormat:
    """Make a format of signed integers with a scale for each row, or for each group of a row."""
    return CoremlWeightFormat(
        name,
        f"int{bits}",
        "constexpr_blockwise_shift_scale",
        group or 1,
        lambda: _make_integer_config(bits, group),
    )


LUT_BITS = 4
LUT_COLUMNS = 16
"""Columns that share a look-up table."""


def _make_codebook_config() -> Any:
    import torch
    from torchao.prototype.quantization.codebook_coreml import CodebookWeightOnlyConfig

    return CodebookWeightOnlyConfig(
        dtype=getattr(torch, f"uint{LUT_BITS}"), block_size=[-1, LUT_COLUMNS]
    )


INTEGERS = {
    made.name: made
    for made in (
        _make_integer_format("int4", 4, 32),
        _make_integer_format("int4_per_channel", 4, 0),
        _make_integer_format("int8_weights", 8, 0),
        _make_integer_format("int8_weights_grouped", 8, 32),
    )
}
"""The formats of integers, by name."""

LUT4 = CoremlWeightFormat(
    "lut4", "uint4", "constexpr_lut_to_dense", LUT_COLUMNS, _make_codebook_config
)
"""4-bit palettes: an index into a table of 16 values, which k-means chooses for 16 columns."""


def make_lut_semantics() -> OperatorSemantics:
    """Return semantics that include torchao's operator that looks up codes."""
    from harness.backend_api import GENERIC_SEMANTICS

    decoders = {**GENERIC_SEMANTICS.decoders, "quant::dequantize_codebook": _decode_codebook}
    return replace(GENERIC_SEMANTICS, decoders=decoders)


def _decode_codebook(
    codes: torch.Tensor,
    codebook: torch.Tensor,
    nbits: int,
    block_size: list[int],
    dtype: torch.dtype | None = None,
) -> BlockQuantizedTensor:
    """Return the table's entries as the numbers of a tensor without a scale.

    Args:
        codes: ``[N, K]``.
        codebook: ``[1, K // columns, 2 ** nbits, 1]`` or ``[N // rows, 1, 2 ** nbits, 1]``.
        nbits: bits of a code.
        block_size: the block that shares a table.
        dtype: of the result; float32 by default.
    """
    import torch

    from harness.backend_api import BlockQuantizedTensor

    tables = codebook.squeeze(-1)
    for axis in (0, 1):
        tables = tables.repeat_interleave(codes.shape[axis] // tables.shape[axis], axis)
    entries = tables.gather(-1, codes.long().unsqueeze(-1)).squeeze(-1).double()
    ones = torch.ones(1, 1, dtype=torch.float64)
    return BlockQuantizedTensor(entries, ones, None, dtype or torch.float32)


def make_quantizer(activations: str) -> Any:
    """Make CoreML's PT2E quantizer, with int8 weights per channel.

    Args:
        activations: torch's dtype of activations: ``quint8``, or ``float32`` for weights only.
    """
    import_compiler()
    keep_patterns()
    import torch
    from coremltools.optimize.torch import quantization
    from executorch.backends.apple.coreml.quantizer import CoreMLQuantizer

    settings = quantization.ModuleLinearQuantizerConfig(
        quantization_scheme="symmetric",
        activation_dtype=getattr(torch, activations),
        weight_dtype=torch.qint8,
        weight_per_channel=True,
    )
    quantizer = CoreMLQuantizer(quantization.LinearQuantizerConfig(global_config=settings))
    quantizer.validate = functools.partial(require_annotations, "CoreML's quantizer")
    return quantizer
