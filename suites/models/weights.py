"""Random weights with the statistics of trained weights.

Activations keep their size from layer to layer, attention is neither uniform nor one-hot, and norms
differ by channel. ``tests/test_telling_models.py`` measures this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from harness.vendors.torch import _BatchNorm, _ConvNd

Model = TypeVar("Model", bound=torch.nn.Module)

_SPREAD = 2.0
_NORM = 0.3  # deviation of the logarithm of a norm's scale
_BIAS = 0.1


def init_weights(
    model: Model, *inputs: Any, embedding: float = _SPREAD, gain: float = 1.0, **named: Any
) -> Model:
    """Draw weights with the statistics of trained weights, in place, from torch's global generator.

    A matrix that sums N terms gets the standard deviation 1/√N, which keeps the size of its input.
    An embedding of width N gets 2/√N, so that logits of a tied head have a deviation of 2. The
    scale of a norm is exp(0.3 x) and a bias is 0.1 x, where x is standard normal. A parameter whose
    initial values are neither constant nor noise (the decay of a state-space model, a table of
    positions) keeps them.

    Args:
        model: the model, with the initial weights of its class.
        inputs: inputs of one call, from which batch norms take their statistics; enough samples
            for good statistics. Omit for a model without batch norms.
        embedding: deviation of an embedding times the square root of its width.
        gain: factor of every matrix; below 1 where residuals are summed and not normalized.
        named: keyword inputs of the call.

    Returns:
        The model, in eval mode.
    """
    embeddings = _owned(model, torch.nn.Embedding)
    kernels = _owned(model, _ConvNd)
    norms = _owned(model, (_BatchNorm, torch.nn.LayerNorm))
    with torch.no_grad():
        for parameter in filter(lambda one: one.requires_grad, model.parameters()):
            if id(parameter) in embeddings:
                _normal(parameter, embedding / parameter.shape[-1] ** 0.5)
            elif id(parameter) in norms or bool((parameter == 1).all()):
                parameter.copy_((_NORM * torch.randn_like(parameter)).exp())
            elif bool((parameter == 0).all()):
                _normal(parameter, _BIAS)
            elif _is_noise(parameter):
                terms = parameter[0].numel() if id(parameter) in kernels else parameter.shape[-1]
                _normal(parameter, gain * terms**-0.5)
    model.eval()
    if inputs or named:
        with torch.no_grad(), _observing(model):
            model(*inputs, **named)
    return model


def _normal(parameter: torch.Tensor, deviation: float) -> None:
    parameter.copy_(deviation * torch.randn_like(parameter))


def _owned(model: torch.nn.Module, of: Any) -> set[int]:
    """Identities of the weights of all modules of one or more classes."""
    return {id(module.weight) for module in model.modules() if isinstance(module, of)}


def _is_noise(parameter: torch.Tensor) -> bool:
    """Whether a matrix or kernel was drawn at random: its rows differ."""
    return parameter.ndim >= 2 and not bool((parameter == parameter[:1]).all())


@contextmanager
def _observing(model: torch.nn.Module) -> Iterator[None]:
    """Inside the context, batch norms replace their statistics by those of the current batch."""
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.eval()
            norm.momentum = momentum
