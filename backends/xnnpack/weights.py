"""Quantize weights of linear layers to 4 bits before export, and check that XNNPACK takes them.

torchao's ``Int8DynamicActivationIntxWeightConfig`` replaces a weight by signed codes, -8 to 7, with
a float32 scale for each group of a row, or for the whole row. The delegate quantizes each row of
the activation to int8 when it runs. Sources: executorch's
``backends/xnnpack/recipes/xnnpack_recipe_provider.py`` and ``8da4w`` of
``extension/llm/export/quantize.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backends.xnnpack.border import find_border_problem

if TYPE_CHECKING:
    import torch

    from harness import Built, Case
    from harness.backend_api import Lowered


@dataclass(frozen=True)
class XnnpackWeightFormat:
    """A weight format. Calling it converts a module.

    Attributes:
        name: the recipe's name.
        group: number of neighbouring elements of a row that share a scale; 0 for the whole row.
    """

    name: str
    group: int

    def __call__(self, module: torch.nn.Module) -> torch.nn.Module:
        """Quantize the weight of every suitable linear layer in place.

        Args:
            module: float32.

        Returns:
            The module itself.
        """
        from torchao.quantization import quantize_

        config = self._make_config()
        quantize_(module, config, filter_fn=lambda part, _: self._can_quantize(part))
        return module

    def unsupported(self, case: Case, built: Built) -> str | None:
        """Return why a recipe of this format cannot test a case, or None."""
        if any(map(self._can_quantize, built.module.modules())):
            return None
        columns = f" with columns in multiples of {self.group}" if self.group else ""
        return f"nothing to quantize: {self.name} takes weights of linear layers{columns}"

    def verify(self, lowered: Lowered) -> str | None:
        """Return a problem of the delegates' border, or if a layer with a quantized weight is no
        delegated 4-bit product."""
        from backends.xnnpack.listing import list_nodes

        if (problem := find_border_problem(lowered)) is not None:
            return problem
        expected = _count_quantized_layers(lowered)
        lines = [line for payload in lowered.program.delegates for line in list_nodes(payload)]
        found = sum("FullyConnected" in line and "qbint4[" in line for line in lines)
        if found == expected:
            return None
        return f"{found} products with a 4-bit weight in the delegates, expected {expected}"

    def _can_quantize(self, part: torch.nn.Module) -> bool:
        """Whether a module is a linear layer whose weight can have this format.

        Subclasses are not included: attention reads the weight of its output projection directly.
        """
        import torch

        return type(part) is torch.nn.Linear and (
            not self.group or part.weight.shape[-1] % self.group == 0
        )

    def _make_config(self) -> Any:
        import torch
        from torchao.quantization.granularity import PerAxis, PerGroup
        from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig

        return Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4,  # type: ignore[attr-defined]  # missing from the stubs
            weight_granularity=PerGroup(self.group) if self.group else PerAxis(0),
        )


def _count_quantized_layers(lowered: Lowered) -> int:
    """Count the linear layers of the exported program whose weight is decoded from codes."""
    from harness.backend_api import op_name

    nodes = [node for node in lowered.exported.graph.nodes if node.op == "call_function"]
    return sum(
        op_name(node.target) == "aten.linear.default"
        and op_name(node.args[1].target) == "torchao.dequantize_affine.default"
        for node in nodes
    )


INT4 = XnnpackWeightFormat("int4", 32)
INT4_PER_CHANNEL = XnnpackWeightFormat("int4_per_channel", 0)
