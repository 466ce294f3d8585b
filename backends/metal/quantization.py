"""Quantize weights of linear layers to the 4-bit format of torchao's operators for MPS.

A format is called on a module before export, like ``torchao.quantization.quantize_``. Each layer
becomes torchao's ``UIntxWeightOnlyQuantizedLinear``, which exports as
``torchao::_linear_fp_act_4bit_weight``, a fallback kernel of the Metal runtime.

Codes are 0 to 15, two in a byte, the lower half first; ``weight = code * scale + offset``. Each 32
neighbouring elements of a row have a scale and an offset, fitted by half-quadratic optimization, as
executorch's ``extension/llm/export/quantize.py`` does for Metal models (``fpa4w``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from harness import Built, Case

OPERATOR = "torchao::_linear_fp_act_4bit_weight"


@dataclass(frozen=True)
class Int4Format:
    """A group-wise 4-bit format. Calling it converts a module.

    Attributes:
        name: the recipe's name.
        group: number of neighbouring elements of a row that share scale and offset: 32, 64, 128 or
            256.
        rows: the number of rows must be a multiple of this, unless the activation has one row.
        dtypes: names of the activation's dtypes that the operator supports.
    """

    name: str = "int4"
    group: int = 32
    rows: int = 4
    dtypes: tuple[str, ...] = ("float32", "bfloat16")

    def __call__(self, module: torch.nn.Module) -> torch.nn.Module:
        """Replace every linear layer with a suitable weight.

        Args:
            module: float32 or bfloat16; changed in place.

        Returns:
            The module, or its replacement if it is a linear layer.
        """
        import torch

        install()
        holder = torch.nn.Sequential(module)
        done: dict[torch.nn.Module, torch.nn.Module] = {}
        for parent, name, layer in list(_find_linears(holder)):
            if self.can_quantize(layer.weight):
                if layer not in done:
                    done[layer] = self._quantize_layer(layer)
                setattr(parent, name, done[layer])
        return holder[0]

    def can_quantize(self, weight: torch.Tensor) -> bool:
        """Whether a weight of shape (rows, columns) can have this format."""
        dtype = str(weight.dtype).removeprefix("torch.")
        return weight.shape[1] % self.group == 0 and dtype in self.dtypes

    def unsupported(self, case: Case, built: Built) -> str | None:
        """Say why a recipe of this format cannot test a case; None when it can."""
        found: list[Any] = [part for part in built.module.modules() if _is_linear(part)]
        layers = {layer for layer in found if self.can_quantize(layer.weight)}
        odd = {layer for layer in layers if layer.weight.shape[0] % self.rows}
        if layers - odd or (odd and _has_single_row(built, odd)):
            return None
        return (
            f"nothing to quantize: {self.name} takes linear weights of {', '.join(self.dtypes)} "
            f"with columns in multiples of {self.group} and rows in multiples of {self.rows}, or "
            "any rows for a single row of activations"
        )

    def _quantize_layer(self, layer: Any) -> torch.nn.Module:
        import torch
        from torchao.experimental.quant_api import UIntxWeightOnlyConfig
        from torchao.quantization import quantize_

        config = UIntxWeightOnlyConfig(
            bitwidth=4, group_size=self.group, uintx_choose_qparams_algorithm="hqq"
        )
        # torchao replaces children only.
        parent = torch.nn.Sequential(layer)
        quantize_(parent, config, filter_fn=lambda part, _: part is layer)
        packed = parent[0]
        return (
            packed
            if layer.weight.shape[0] % self.rows == 0
            else _make_single_row_class()(layer, packed)
        )


def install() -> None:
    """Declare torchao's operators where its library is missing, and add a CPU kernel.

    torchao has no CPU kernel for the operator of this format, and eager references need one.
    """
    from backends.metal.generation import lowbit

    lowbit.install()
    _register_kernel()


@functools.cache
def _register_kernel() -> Any:
    import torch

    from backends.metal.fallbacks import quantized
    from harness.vendors.torch import _dispatch_has_kernel_for_dispatch_key

    def linear(
        activation: torch.Tensor,
        packed: torch.Tensor,
        group_size: int,
        scales: torch.Tensor,
        offsets: torch.Tensor,
    ) -> torch.Tensor:
        return quantized.linear_4bit(activation, packed, group_size, scales, offsets)[0]

    # The cache keeps the library object alive: the kernel is removed together with it.
    library = torch.library.Library("torchao", "IMPL")  # type: ignore[no-untyped-call]
    if not _dispatch_has_kernel_for_dispatch_key(OPERATOR, "CPU"):
        library.impl(  # type: ignore[no-untyped-call]
            OPERATOR.partition("::")[2], linear, "CPU"
        )
    return library


def _is_linear(module: Any) -> bool:
    # Not a subclass: other code may use its weight, as attention does with its output projection.
    import torch

    return type(module) is torch.nn.Linear


def _find_linears(module: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, str, Any]]:
    """Find linear layers in a module, each with its parent and its name in the parent."""
    for parent in module.modules():
        # named_children leaves out a layer's second name.
        for name, child in parent._modules.items():
            if _is_linear(child):
                yield parent, name, child


def _has_single_row(built: Built, layers: set[Any]) -> bool:
    """Return whether one of the layers multiplies a single row in every call of a case."""
    import torch

    from harness import arguments

    seen: dict[Any, set[int]] = {layer: set() for layer in layers}

    def see(layer: Any, given: tuple[torch.Tensor, ...]) -> None:
        seen[layer].add(given[0].numel() // given[0].shape[-1])

    handles = [layer.register_forward_pre_hook(see) for layer in layers]
    try:
        with torch.no_grad():
            for inputs in built.calls:
                args, kwargs = arguments(inputs)
                built.module(*args, **kwargs)
    except Exception:  # the cell will report it with its stage
        return True
    finally:
        for handle in handles:
            handle.remove()
    return {1} in seen.values()


@functools.cache
def _make_single_row_class() -> type[torch.nn.Module]:
    import torch

    class SingleRow(torch.nn.Module):
        """Uses the quantized layer for one row of activations and the float layer for more rows.

        The operator's kernels for several rows do not support every number of rows of a weight.
        """

        def __init__(self, plain: torch.nn.Module, packed: torch.nn.Module) -> None:
            super().__init__()
            self.plain = plain
            self.packed = packed

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            chosen = self.packed if x.numel() == x.shape[-1] else self.plain
            result: torch.Tensor = chosen(x)
            return result

    return SingleRow


int4 = Int4Format()
