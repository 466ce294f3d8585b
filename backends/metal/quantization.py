"""Weights of linear layers in the 4-bit format of torchao's operators for MPS.

A format is called on a module before export, as one calls ``torchao.quantization.quantize_``: each
layer becomes torchao's ``UIntxWeightOnlyQuantizedLinear``, which exports as
``torchao::_linear_fp_act_4bit_weight``, a fallback kernel of the Metal runtime.

Codes are 0 to 15, two to a byte, the lower half first; ``weight = code * scale + offset`` with a
scale and an offset for a run of 32 in a row, fitted by half-quadratic optimization: what
executorch's ``extension/llm/export/quantize.py`` applies for Metal models (``fpa4w``).
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
class Format:
    """A group-wise 4-bit format, and by calling it the conversion to it.

    Attributes:
        name: of the recipe.
        group: how many neighbours of a row share scale and offset: 32, 64, 128 or 256.
        rows: what the number of rows has to be a multiple of where more than one row of
            activations is multiplied.
        dtypes: names of what the operator computes with.
    """

    name: str = "int4"
    group: int = 32
    rows: int = 4
    dtypes: tuple[str, ...] = ("float32", "bfloat16")

    def __call__(self, module: torch.nn.Module) -> torch.nn.Module:
        """Replace every linear layer whose weight fits; the others stay as they are.

        Args:
            module: float32 or bfloat16; changed.

        Returns:
            The module, or what replaces it where it is a linear layer itself.
        """
        import torch

        install()
        holder = torch.nn.Sequential(module)
        done: dict[torch.nn.Module, torch.nn.Module] = {}
        for parent, name, layer in list(_linears(holder)):
            if self.fits(layer.weight):
                if layer not in done:
                    done[layer] = self._converted(layer)
                setattr(parent, name, done[layer])
        return holder[0]

    def fits(self, weight: torch.Tensor) -> bool:
        """Whether a weight of shape (rows, columns) can have this format."""
        dtype = str(weight.dtype).removeprefix("torch.")
        return weight.shape[1] % self.group == 0 and dtype in self.dtypes

    def unsupported(self, case: Case, built: Built) -> str | None:
        """Why a recipe of this format has nothing to say about a case, or None."""
        found: list[Any] = [part for part in built.module.modules() if _is_linear(part)]
        layers = {layer for layer in found if self.fits(layer.weight)}
        odd = {layer for layer in layers if layer.weight.shape[0] % self.rows}
        if layers - odd or (odd and _single(built, odd)):
            return None
        return (
            f"nothing to quantize: {self.name} takes linear weights of {', '.join(self.dtypes)} "
            f"with columns in multiples of {self.group} and rows in multiples of {self.rows}, or "
            "any rows for a single row of activations"
        )

    def _converted(self, layer: Any) -> torch.nn.Module:
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
        return packed if layer.weight.shape[0] % self.rows == 0 else _single_row()(layer, packed)


def install() -> None:
    """Declare the operators where torchao's library is missing, and give the one of this format a
    kernel on the CPU, which torchao has not: eager references run there."""
    from backends.metal.generation import lowbit

    lowbit.install()
    _kernel()


@functools.cache
def _kernel() -> Any:
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

    # Kept alive: a kernel disappears with the library object that registered it.
    library = torch.library.Library("torchao", "IMPL")  # type: ignore[no-untyped-call]
    if not _dispatch_has_kernel_for_dispatch_key(OPERATOR, "CPU"):
        library.impl(  # type: ignore[no-untyped-call]
            OPERATOR.partition("::")[2], linear, "CPU"
        )
    return library


def _is_linear(module: Any) -> bool:
    """A subclass may use its weight in other ways: attention's output projection does."""
    import torch

    return type(module) is torch.nn.Linear


def _linears(module: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, str, Any]]:
    """Linear layers below a module, each with its parent and its name there."""
    for parent in module.modules():
        # named_children leaves out a layer's second name.
        for name, child in parent._modules.items():
            if _is_linear(child):
                yield parent, name, child


def _single(built: Built, layers: set[Any]) -> bool:
    """Whether any of the layers multiplies a single row in every call of a case."""
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
    except Exception:  # the cell itself says it with its stage
        return True
    finally:
        for handle in handles:
            handle.remove()
    return {1} in seen.values()


@functools.cache
def _single_row() -> type[torch.nn.Module]:
    import torch

    class SingleRow(torch.nn.Module):
        """Quantized for one row of activations, as it was for more: the operator's kernels for
        several rows do not take every number of columns."""

        def __init__(self, plain: torch.nn.Module, packed: torch.nn.Module) -> None:
            super().__init__()
            self.plain = plain
            self.packed = packed

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            chosen = self.packed if x.numel() == x.shape[-1] else self.plain
            result: torch.Tensor = chosen(x)
            return result

    return SingleRow


int4 = Format()
