"""Pair the operations of a perturbed run with the same operations of the unperturbed run.

An operation is named by its operator, by the place in the program that calls it, and by how often
that place has called it. Runs in which a branch is taken or a loop ends sooner than in others stay
paired before, after and around it.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.utils.weak import WeakIdKeyDictionary

from harness.numerics.error_model.noise import NoisePools
from harness.numerics.large_tensors.shared_sums import SharedSums

Node: TypeAlias = tuple[Any, ...]
"""Names an operation of a run: operator, place, and number of the call."""

_OWN = "harness.numerics."
_RUNNER = "harness.numerics.module_runs"


class NodeNames:
    """Names the operations of one run."""

    def __init__(self) -> None:
        self._calls: Counter[Node] = Counter()

    def add(self, operator: Any) -> Node:
        """Return the name of an operation that runs now.

        Args:
            operator: anything hashable that names the operator.
        """
        place = operator, *_find_place()
        self._calls[place] += 1
        return *place, self._calls[place]


def _find_place() -> list[Any]:
    """Return the functions that called this operation, and where in them, the last one first.

    Functions of the run itself, which differ between runs, do not count. The instruction rather
    than the line tells apart several operations of a line.
    """
    place = []
    frame = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == _RUNNER:
            break
        if not module.startswith(_OWN) or ".tests." in module:
            place += [frame.f_code.co_qualname, frame.f_lasti]
        frame = frame.f_back
    return place


@dataclass
class RunRecord:
    """Intermediates of an unperturbed run for the perturbed runs to compare with.

    Attributes:
        sums: the large sums.
        noise_pools: noise for large tensors, shared by the perturbed runs.
        encoded_activations: every activation that was encoded to blocks, before encoding.
        discontinuities: arguments and result of every discontinuous operation.
        in_domain: which arguments of a function were in its domain; None for all of them.
        quantized: the numbers that codes, or values decoded from codes, were rounded from.
    """

    sums: SharedSums = field(default_factory=SharedSums)
    noise_pools: NoisePools = field(default_factory=dict)
    encoded_activations: dict[Node, torch.Tensor] = field(default_factory=dict)
    discontinuities: dict[Node, tuple[tuple[Any, ...], torch.Tensor]] = field(default_factory=dict)
    in_domain: dict[Node, torch.Tensor | None] = field(default_factory=dict)
    quantized: MutableMapping[torch.Tensor, torch.Tensor] = field(
        default_factory=WeakIdKeyDictionary
    )
