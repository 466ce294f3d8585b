"""Compute attention over many keys in blocks of rows, without storing all scores or their noise.

In a perturbed run, the relative error of weight (i, j) is a product of two random numbers, one of
the row and one of the key, with the amplitude of the operations that lead there. The terms that a
row sums have independent errors, without a random number for each score.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from harness.model.precision import Precision
from harness.numerics.error_model.magnitudes import FLOAT32_UNIT, Reduction
from harness.numerics.error_model.noise import Noise

NAME = "_scaled_dot_product_flash_attention_for_cpu"
# Attention with more scores is computed here; smaller ones run as their decomposition.
_LARGE = 2**22
# Scores that are held at a time, several times over; they fit into a cache.
_BLOCK = 2**17


BlockIndex: TypeAlias = tuple[slice, slice, slice]
"""Batches, heads, and rows or keys of a block."""


@dataclass(frozen=True)
class AttentionCall:
    """A call with many scores. All tensors are float64.

    Attributes:
        query: (batches, heads, rows, depth).
        key: (batches, heads or a divisor of it, keys, depth).
        value: likewise.
        mask: added to the scores, broadcast to (batches, heads, rows, keys).
        is_causal: row i attends to the keys up to i.
        scale: factor on the scores.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    is_causal: bool
    scale: float


@dataclass(frozen=True)
class WeightErrors:
    """Relative errors of the attention weights in one run.

    The weight ``exp(-t)``, where ``t`` is the largest score ``s`` of its row minus its own score,
    errs by ``side·(norm·a + |s|·b + c + t·d)``.

    Attributes:
        side: plus or minus one, (batches, heads, rows, 1).
        norm: norm of the scaled query, same shape.
        a: error of a product of unit vectors with this key, (batches, heads of the key, keys).
        b: error of a score, relative to it.
        c: error of the exponential.
        d: error of its argument, relative to it.
    """

    side: torch.Tensor
    norm: torch.Tensor
    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor
    d: torch.Tensor

    def compute_score_factors(self, here: BlockIndex, keys: BlockIndex) -> torch.Tensor:
        """Return the factors on the scores of a block: the part of the scores in ``t·d``."""
        row_side, key_error = self.side[here], self.d[keys].unsqueeze(-2)
        return torch.addcmul(torch.ones((), dtype=torch.float64), row_side, key_error, value=-1)

    def compute_row_terms(self, largest_scores: torch.Tensor) -> torch.Tensor:
        """Return one factor of the remaining exponents, (batches, heads, rows, 5); the other one is
        :attr:`key_terms`."""
        side, largest = self.side, largest_scores
        terms = [side * self.norm, side * largest.abs(), side, side * largest, -largest]
        return torch.cat(terms, -1)

    @property
    def key_terms(self) -> torch.Tensor:
        """The other factor, (batches, heads of the key, 5, keys)."""
        return torch.stack([self.a, self.b, self.c, self.d, torch.ones_like(self.d)], -2)


@dataclass(frozen=True)
class AttentionResult:
    """The result of attention, and intermediates that perturbed runs need.

    Attributes:
        out: the result, with the strides of the operator's own.
        largest_scores: the largest score of each row, (batches, heads, rows, 1).
        magnitude: the result computed with absolute values.
    """

    out: torch.Tensor
    largest_scores: torch.Tensor
    magnitude: torch.Tensor


def find_large(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> AttentionCall | None:
    """Return a call of the operator if it has many scores and no fully masked row, else None."""
    shape = (*query.shape[:3], key.shape[2])
    if math.prod(shape) <= _LARGE or dropout_p:
        return None
    if attn_mask is not None:
        if bool((attn_mask == -math.inf).all(-1).any()):
            return None
        attn_mask = attn_mask.expand(shape)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return AttentionCall(query, key, value, attn_mask, is_causal, scale)


def evaluate(call: AttentionCall) -> AttentionResult:
    """Compute attention without errors."""
    largest = call.query.new_empty(*call.query.shape[:3], 1)

    def compute_exponents(here: BlockIndex, keys: BlockIndex) -> torch.Tensor:
        scores = _compute_scores(call, here, keys)
        largest[here] = scores.amax(-1, keepdim=True)
        return scores.sub_(largest[here])

    out, magnitude = _compute_weighted_means(call, compute_exponents, [call.value.abs()])
    return AttentionResult(out, largest, magnitude)


def evaluate_with_errors(
    errors: WeightErrors, call: AttentionCall, largest_scores: torch.Tensor
) -> torch.Tensor:
    """Compute attention with errors of the weights.

    Args:
        errors: errors of the weights.
        call: the call, with perturbed query and key.
        largest_scores: the largest score of each row without errors.
    """
    row_terms, key_terms = errors.compute_row_terms(largest_scores), errors.key_terms

    def compute_exponents(here: BlockIndex, keys: BlockIndex) -> torch.Tensor:
        scores = _compute_scores(call, here, keys, errors)
        scores[0].baddbmm_(row_terms[here][0], key_terms[keys[:2]][0, ..., keys[2]])
        return scores

    return _compute_weighted_means(call, compute_exponents, [])[0]


def draw_weight_errors(
    call: AttentionCall, noise: Noise, precision: Precision, unit: float, *, is_wide: bool
) -> WeightErrors:
    """Draw the errors of a call's weights. Its operations err as in its decomposition.

    Args:
        call: the call, with perturbed query and key.
        noise: draws the errors.
        precision: rounding model of the target.
        unit: unit roundoff of the operator's dtype.
        is_wide: its sums accumulate in float32.
    """
    query, key = call.query, call.key
    product = Reduction(query.shape[-1], None, None).count_roundings()
    product *= min(unit, FLOAT32_UNIT) if is_wide else unit
    # A mask is added to the rounded sum.
    score = unit * (is_wide + (call.is_causal or call.mask is not None))
    exponential = 2 * unit * precision.ulps("exp")
    quotient = unit * precision.division_roundings
    argument = unit * (1 + precision.argument_roundings)

    def draw_per_key(amplitude: Any) -> torch.Tensor:
        size = torch.as_tensor(amplitude, dtype=torch.float64)
        return noise.draw_uniform(size.expand(key.shape[:3]))

    return WeightErrors(
        side=noise.draw_block_signs(query.shape[:3]).unsqueeze(-1),
        norm=query.norm(dim=-1, keepdim=True).mul_(abs(call.scale)),
        a=draw_per_key(key.norm(dim=-1) * product),
        b=draw_per_key(score),
        c=draw_per_key(exponential + quotient),
        d=draw_per_key(score + argument),
    )


def _compute_weighted_means(
    call: AttentionCall,
    compute_exponents: Callable[[BlockIndex, BlockIndex], torch.Tensor],
    others: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """Return means of the values, and of others like them, weighted by exponentials."""
    batches, heads, length, _ = call.query.shape
    depth = call.value.shape[-1]
    # A column of ones sums the weights.
    columns = [call.value, *others, torch.ones_like(call.value[..., :1])]
    values = torch.cat(columns, -1)
    shape = (length, batches, heads, depth)
    results = [call.query.new_empty(shape).permute(1, 2, 0, 3) for _ in columns[1:]]
    for here in iterate_blocks(call.query.shape[:3], call.key.shape, _BLOCK):
        batch, heads_here, rows = here
        last = min(rows.stop, call.key.shape[2]) if call.is_causal else call.key.shape[2]
        keys = (batch, _find_key_heads(call, heads_here), slice(0, last))
        sums = compute_exponents(here, keys).exp_() @ values[keys]
        for number, result in enumerate(results):
            weighted = sums[..., number * depth : (number + 1) * depth]
            torch.div(weighted, sums[..., -1:], out=result[here])
    return results


def _compute_scores(
    call: AttentionCall, here: BlockIndex, keys: BlockIndex, errors: WeightErrors | None = None
) -> torch.Tensor:
    """Return the scores of a block; hidden scores are minus infinity."""
    scores = (call.query[here] * call.scale) @ call.key[keys].mT
    if call.mask is not None:
        scores += call.mask[here][..., keys[2]]
    if errors is not None:
        scores *= errors.compute_score_factors(here, keys)
    if call.is_causal:
        later = scores[..., here[2].start + 1 :]
        later.masked_fill_(_above_diagonal(*later.shape[-2:]), -math.inf)
    return scores


@functools.lru_cache(maxsize=8)
def _above_diagonal(rows: int, columns: int) -> torch.Tensor:
    return torch.ones(rows, columns, dtype=torch.bool).triu_()


def iterate_blocks(
    query: Sequence[int], key: Sequence[int], max_scores: int = _LARGE
) -> Iterator[BlockIndex]:
    """Yield batches, heads and rows of a query whose scores are held together.

    Args:
        query: batches, heads and rows of the query.
        key: the same of the keys; where several heads share one, a block has one head.
        max_scores: number of scores of a block; one row may have more.
    """
    batches, heads, length = query[:3]
    at_a_time = max(1, max_scores // (length * key[2])) if heads == key[1] else 1
    rows = max(1, min(length, max_scores // key[2]))
    for batch in range(batches):
        for head in range(0, heads, at_a_time):
            for row in range(0, length, rows):
                yield (
                    slice(batch, batch + 1),
                    slice(head, min(head + at_a_time, heads)),
                    slice(row, min(row + rows, length)),
                )


def _find_key_heads(call: AttentionCall, heads: slice) -> slice:
    """Return the heads of the keys that belong to these heads of the query."""
    shared = call.query.shape[1] // call.key.shape[1]
    return heads if shared == 1 else slice(heads.start // shared, heads.start // shared + 1)
