"""Weights and inputs of the models are conclusive: nothing vanishes, saturates or is uniform."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from harness import Case
from harness.model.case import arguments
from suites.models import language, speech, text, vision

MODELS = [
    case
    for suite in (language, speech, text, vision)
    for case in suite.CASES
    if "dynamic" not in case.tags
]


class Attentions(TorchFunctionMode):
    """Records the entropy of all attention weights, relative to uniform ones over visible keys."""

    def __init__(self) -> None:
        super().__init__()
        self.entropies: list[float] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            self._note(_scores(*args, **kwargs))
        elif func in (torch.nn.functional.softmax, torch.softmax):
            self._note(args[0])
        return func(*args, **kwargs)

    def _note(self, scores: torch.Tensor) -> None:
        seen = (scores > torch.finfo(scores.dtype).min / 2).sum(-1)
        weights = scores.softmax(-1)
        entropy = -(weights * weights.clamp(min=1e-30).log()).sum(-1)
        several = seen > 2
        if bool(several.any()):
            self.entropies.append(float((entropy / seen.log())[several].mean()))


def _scores(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query @ key.mT * (scale or query.shape[-1] ** -0.5)
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    if attn_mask is None:
        return scores
    if attn_mask.dtype == torch.bool:
        return scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)
    return scores + attn_mask


@contextmanager
def _sizes(module: torch.nn.Module) -> Iterator[dict[str, float]]:
    """Record the root mean square of the output of each submodule with weights."""
    found: dict[str, float] = {}
    hooks = []
    for name, part in module.named_modules():
        if "parametrizations" in name or not list(part.parameters(recurse=False)):
            continue

        def note(part: Any, given: Any, made: Any, name: str = name) -> None:
            made = made[0] if isinstance(made, tuple) else made
            if isinstance(made, torch.Tensor) and made.is_floating_point():
                found[name] = float(made.square().mean().sqrt())

        hooks.append(part.register_forward_hook(note))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


# Parts of models that are exported on their own.
ONE_LAYER = {"smolvlm/connector"}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
def test_a_model_is_conclusive(case: Case) -> None:
    built = case.make()
    attention = Attentions()
    returned = []
    with torch.no_grad(), attention, _sizes(built.module) as sizes:
        for call in built.calls:
            args, kwargs = arguments(call)
            made = built.module(*args, **kwargs)
            returned.append(made if isinstance(made, tuple) else (made,))
    assert len(sizes) >= (1 if case.name in ONE_LAYER else 3)
    off = {name: size for name, size in sizes.items() if not 0.03 < size < 30}
    assert not off
    assert all(0.3 < entropy < 0.98 for entropy in attention.entropies), attention.entropies
    for first, second in zip(*returned[:2], strict=True):
        assert float(first.std()) > 0.1
        assert float((first - second).norm() / first.norm()) > 0.05
