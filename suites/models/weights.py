"""Random weights of trained ones' kind: values keep their size from layer to layer, attention is
neither uniform nor one-hot, norms differ by channel. ``tests/test_telling_models.py`` measures it.
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


def settle(
    model: Model, *inputs: Any, embedding: float = _SPREAD, gain: float = 1.0, **named: Any
) -> Model:
    """Give a model telling weights, in place, drawn from torch's global generator.

    A matrix that sums N terms gets the deviation 1/√N, which keeps the size of what it is given; an
    embedding of width N 2/√N, so that logits of a tied head spread by 2; the scale of a norm
    exp(0.3 x); a bias 0.1 x; x normal. What is neither a constant nor noise at first (the decay of
    a state-space model, a table of positions) keeps its values.

    Args:
        model: with the weights that its class gave it.
        inputs: of one call, from which batch norms take their statistics; as many samples as make
            good ones. None for a model without.
        embedding: deviation of an embedding times the root of its width.
        gain: of every matrix; below 1 where residuals are summed and nothing normalizes them.
        named: those by name.

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
    """Identities of the weights of modules of a class or several."""
    return {id(module.weight) for module in model.modules() if isinstance(module, of)}


def _is_noise(parameter: torch.Tensor) -> bool:
    """Whether a matrix or kernel was drawn: its rows differ."""
    return parameter.ndim >= 2 and not bool((parameter == parameter[:1]).all())


@contextmanager
def _observing(model: torch.nn.Module) -> Iterator[None]:
    """While it lasts, batch norms take the statistics of what they see as their own."""
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
