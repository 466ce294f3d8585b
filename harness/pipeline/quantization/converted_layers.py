"""Measure how far a model whose weights a recipe quantizes before export is from the float model.

Such a model has no observers whose steps say what to expect. Instead, a layer of each kind is
converted with normally distributed weights and fed normally distributed inputs: its error is that
of a layer that suits the format. The errors of all layers are independent and add up in power.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from msgspec import structs
from torch import nn

from harness.model.case import CallInputs
from harness.model.copies import copy_module
from harness.model.seeding import restore_generators
from harness.numerics.module_runs import CallResult, run_calls
from harness.pipeline.quantization.attribution import SHOWN, find_modules
from harness.pipeline.quantization.quality import QualityOptions, compute_sqnr, measure_quality
from harness.record.evidence import Quality, QualityPart

Convert = Callable[[nn.Module], nn.Module]

# Inputs of a layer whose conversion is tried; an error in the root mean square needs no more.
_ROWS = 64


class ConvertedLayers:
    """The layers of a model that a recipe converted.

    Args:
        model: the float model.
        converted: the same with quantized weights. Its modules have the same names.
        convert: what converted it; takes a module, and converts it in place or returns another.
        seed: seeds the runs, and the weights that are tried.
    """

    def __init__(self, model: nn.Module, converted: nn.Module, convert: Convert, seed: int) -> None:
        self._model, self._converted, self._convert, self._seed = model, converted, convert, seed
        self.names = find_converted(model, converted)

    def measure(
        self,
        returned: Sequence[CallResult],
        expected: Sequence[CallResult],
        options: QualityOptions,
        calls: Sequence[CallInputs],
    ) -> Quality | None:
        """Measure the quality of the converted model.

        Args:
            returned: what each call of the converted model returned.
            expected: likewise, of the float model.
            options: what to measure beside the distance of the two.
            calls: the inputs of each call.

        Returns:
            None where nothing was converted, where what to expect of a layer is not known, or where
            no output has a finite SQNR.
        """
        expected_db = self.expect_sqnr()
        if not self.names or expected_db is None:
            return None
        quality = measure_quality(returned, expected, expected_db, len(self.names))
        if quality is None or not (options.explain or options.reach_db is not None):
            return quality
        return structs.replace(quality, **self._explain(quality, expected, options, calls))

    def expect_sqnr(self) -> float | None:
        """Return the SQNR, in dB, of as many layers that suit the format; None if not known."""
        smallest: dict[type[nn.Module], nn.Module] = {}
        kinds = []
        for name in self.names:
            layer = self._model.get_submodule(name)
            kinds.append(type(layer))
            if _size(layer) < _size(smallest.get(type(layer))):
                smallest[type(layer)] = layer
        noise = 0.0
        for kind, layer in smallest.items():
            error = measure_typical_error(layer, self._convert, self._seed)
            if error is None:
                return None
            noise += kinds.count(kind) * error**2
        return -10 * math.log10(noise) if noise else math.inf

    def _explain(
        self,
        quality: Quality,
        expected: Sequence[CallResult],
        options: QualityOptions,
        calls: Sequence[CallInputs],
    ) -> dict[str, Any]:
        """Fields of a :class:`Quality`, as far as the options ask for them."""
        wanted = [call.outputs[quality.output] for call in expected]

        def measure(module: nn.Module) -> float:
            results = run_calls(module, calls, self._seed)
            sqnr = compute_sqnr([call.outputs[quality.output] for call in results], wanted)
            return -math.inf if sqnr is None else sqnr

        def measure_in_float(names: Sequence[str]) -> float:
            with layers_replaced(self._converted, names, self._model) as module:
                return measure(module)

        alone = {}
        for name in self.names:
            with layers_replaced(self._model, [name], self._converted) as module:
                alone[name] = measure(module)
        ranked = sorted(alone, key=alone.__getitem__)
        found: dict[str, Any] = {}
        if options.explain:
            found["parts"] = [
                QualityPart(
                    node=f"{name}.weight".lstrip("."),
                    module=name,
                    alone_db=alone[name],
                    without_db=measure_in_float([name]),
                )
                for name in ranked[:SHOWN]
            ]
        if options.reach_db is not None:
            kept, reached = find_modules(ranked, options.reach_db, measure_in_float)
            found |= {"keep_float": kept, "reached_db": reached, "wanted_db": options.reach_db}
        return found


def convert_others(model: nn.Module, convert: Convert, names: Sequence[str]) -> nn.Module:
    """Convert a model, in place or not, except for the submodules of these names that it has."""
    layers = dict(model.named_modules())
    kept = {name: copy_module(layers[name])[0] for name in names if name in layers}
    converted = convert(model)
    for name, layer in kept.items():
        converted.set_submodule(name, layer)
    return converted


def find_converted(model: nn.Module, converted: nn.Module) -> list[str]:
    """Return the names of the modules whose own parameters or buffers are others."""
    others = dict(converted.named_modules())
    return [
        name
        for name, layer in model.named_modules()
        if name in others and _differs(layer, others[name])
    ]


def _differs(one: nn.Module, other: nn.Module) -> bool:
    mine, theirs = (
        dict([*each.named_parameters(recurse=False), *each.named_buffers(recurse=False)])
        for each in (one, other)
    )
    if type(one) is not type(other) or mine.keys() != theirs.keys():
        return True
    return any(
        type(mine[name]) is not type(theirs[name])
        # Classes of quantized weights need not have a comparison.
        or (type(mine[name]) in (nn.Parameter, torch.Tensor)
            and not torch.equal(mine[name], theirs[name]))
        for name in mine
    )  # fmt: skip


def measure_typical_error(layer: nn.Module, convert: Convert, seed: int) -> float | None:
    """Return the error of a layer that suits a format, as a share of its output.

    Both are root mean squares, for weights and inputs that are normally distributed. None for a
    kind of layer whose inputs are not known, or which is not converted by itself.
    """
    with torch.no_grad(), restore_generators():
        torch.manual_seed(seed)
        inputs = _draw_inputs(layer)
        if inputs is None:
            return None
        # Under a name that no model has, so that it is converted where the model's is not.
        plain = nn.Sequential(OrderedDict(layer_by_itself=copy_module(layer)[0]))
        for name, parameter in plain[0].named_parameters():
            parameter.zero_() if name == "bias" else parameter.normal_()
        expected = plain(inputs).double()
        try:
            converted = convert(copy_module(plain)[0])
        except Exception:  # a function of the user's may know its own model only
            return None
        if not find_converted(plain, converted):
            return None
        error = converted(inputs).double() - expected
    return float(error.norm() / expected.norm())


def _draw_inputs(layer: nn.Module) -> torch.Tensor | None:
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, torch.Tensor):
        return None
    if isinstance(layer, nn.Embedding):
        return torch.arange(min(_ROWS, layer.num_embeddings))
    if isinstance(layer, nn.Linear):
        return torch.randn(_ROWS, layer.in_features, dtype=weight.dtype)
    if isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
        sizes = [4 * size for size in layer.kernel_size]
        return torch.randn(1, layer.in_channels, *sizes, dtype=weight.dtype)
    return None


@contextmanager
def layers_replaced(
    module: nn.Module, names: Sequence[str], source: nn.Module
) -> Iterator[nn.Module]:
    """A module in which the submodules of these names are those of ``source``, for as long as the
    context lasts. An empty name is that of the whole module."""
    if "" in names:
        yield source
        return
    own = {name: module.get_submodule(name) for name in names}
    try:
        for name in names:
            module.set_submodule(name, source.get_submodule(name))
        yield module
    finally:
        for name, layer in own.items():
            module.set_submodule(name, layer)


def _size(layer: nn.Module | None) -> float:
    return math.inf if layer is None else sum(each.numel() for each in layer.parameters())
