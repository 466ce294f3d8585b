"""Attention over many keys: its scores never stand in memory as a whole, nor does their noise.

A block of rows is computed at a time. Where results err, the error of weight (i, j), relative to
it, is a product of two random numbers, one of the row and one of the key, with the amplitude that
the operations on the way have there: what a row sums up is then disturbed by independent terms,
without a random number for each score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

NAME = "_scaled_dot_product_flash_attention_for_cpu"
# Attention with more scores is computed here; others as what it is made of.
_LARGE = 2**22
# Scores that are held at a time, several times over: what a cache holds.
_BLOCK = 2**17


Place: TypeAlias = tuple[slice, slice, slice]
"""Batches, heads, and rows or keys."""


@dataclass(frozen=True)
class Attention:
    """A call with many scores. All tensors are float64.

    Attributes:
        query: (batches, heads, rows, depth).
        key: (batches, heads or a divisor of it, keys, depth).
        value: likewise.
        mask: what is added to the scores, broadcast to (batches, heads, rows, keys).
        is_causal: a row sees the keys up to its own number.
        scale: factor on the scores.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    is_causal: bool
    scale: float


@dataclass(frozen=True)
class Errors:
    """Relative errors of the weights in one run: ``side·(norm·a + |most|·b + c + t·d)`` of the
    weight ``exp(-t)``, ``t`` being how far its score is below ``most``, the largest of its row.

    Attributes:
        side: plus or minus one, (batches, heads, rows, 1).
        norm: of the scaled query, likewise.
        a: error of a product of unit vectors with this key, (batches, heads of the key, keys).
        b: of a score, relative to it.
        c: of the exponential.
        d: of its argument, relative to it.
    """

    side: torch.Tensor
    norm: torch.Tensor
    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor
    d: torch.Tensor

    def factors(self, here: Place, keys: Place) -> torch.Tensor:
        """What the scores of a block are multiplied by: their part of ``t·d``."""
        of_row, of_key = self.side[here], self.d[keys].unsqueeze(-2)
        return torch.addcmul(torch.ones((), dtype=torch.float64), of_row, of_key, value=-1)

    def of_rows(self, here: Place, most: torch.Tensor) -> torch.Tensor:
        """With :meth:`of_keys` the rest of a block's exponents, a product."""
        side = self.side[here]
        return torch.cat([side * self.norm[here], side * most.abs(), side, side * most, -most], -1)

    def of_keys(self, keys: Place) -> torch.Tensor:
        """The other factor."""
        parts = (self.a, self.b, self.c, self.d)
        return torch.stack([*(part[keys] for part in parts), torch.ones_like(self.d[keys])], -2)


@dataclass(frozen=True)
class Evaluated:
    """What attention returns, and what further runs need of it.

    Attributes:
        out: the result, laid out as the operator's own.
        most: the largest score of each row, (batches, heads, rows, 1).
        magnitude: the result with absolute values for values; None where it was not asked for.
    """

    out: torch.Tensor
    most: torch.Tensor
    magnitude: torch.Tensor | None


def large(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Attention | None:
    """A call of the operator, if it has many scores and every row has a key that it sees."""
    shape = (*query.shape[:3], key.shape[2])
    if math.prod(shape) <= _LARGE or dropout_p:
        return None
    if attn_mask is not None:
        if bool((attn_mask == -math.inf).all(-1).any()):
            return None
        attn_mask = attn_mask.expand(shape)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return Attention(query, key, value, attn_mask, is_causal, scale)


def evaluate(
    call: Attention,
    errors: Errors | None = None,
    most: torch.Tensor | None = None,
    *,
    magnitudes: bool = False,
) -> Evaluated:
    """Compute it.

    Args:
        call: what is computed.
        errors: of the weights; None for none.
        most: the largest score of each row, or what is close to it, where that is known.
        magnitudes: whether to return them.
    """
    batches, heads, length, _ = call.query.shape
    depth = call.value.shape[-1]
    # A column of ones sums up the weights.
    columns = [call.value, call.value.abs()] if magnitudes else [call.value]
    values = torch.cat([*columns, torch.ones_like(call.value[..., :1])], -1)
    shape = (length, batches, heads, depth)
    results = [call.query.new_empty(shape).permute(1, 2, 0, 3) for _ in columns]
    found = call.query.new_empty(batches, heads, length, 1) if most is None else most
    for here in blocks(call.query.shape[:3], call.key.shape, _BLOCK):
        batch, some, rows = here
        last = min(rows.stop, call.key.shape[2]) if call.is_causal else call.key.shape[2]
        keys = (batch, _heads_of(call, some), slice(0, last))
        scores = (call.query[here] * call.scale) @ call.key[keys].mT
        if call.mask is not None:
            scores += call.mask[here][..., :last]
        if errors is not None:
            scores *= errors.factors(here, keys)
        if call.is_causal:
            later = scores[..., rows.start + 1 :]
            hidden = torch.ones(later.shape[-2:], dtype=torch.bool).triu_()
            later.masked_fill_(hidden, -math.inf)
        if most is None:
            found[here] = scores.amax(-1, keepdim=True)
        if errors is None:
            scores -= found[here]
        else:
            rest = errors.of_rows(here, found[here])[0], errors.of_keys(keys)[0]
            scores[0].baddbmm_(*rest)
        sums = scores.exp_() @ values[keys]
        for number, result in enumerate(results):
            result[here] = sums[..., number * depth : (number + 1) * depth] / sums[..., -1:]
    return Evaluated(results[0], found, results[1] if magnitudes else None)


def blocks(query: Sequence[int], key: Sequence[int], held: int = _LARGE) -> Iterator[Place]:
    """Batches, heads and rows of a query whose scores are held together.

    Args:
        query: batches, heads and rows of the query.
        key: the same of the keys; where several heads share one, a head is taken at a time.
        held: how many scores.
    """
    batches, heads, length = query[:3]
    at_a_time = max(1, held // (length * key[2])) if heads == key[1] else 1
    rows = max(1, min(length, held // key[2]))
    for batch in range(batches):
        for head in range(0, heads, at_a_time):
            for row in range(0, length, rows):
                yield (
                    slice(batch, batch + 1),
                    slice(head, min(head + at_a_time, heads)),
                    slice(row, min(row + rows, length)),
                )


def _heads_of(call: Attention, heads: slice) -> slice:
    """The heads of the keys that belong to these of the query."""
    shared = call.query.shape[1] // call.key.shape[1]
    return heads if shared == 1 else slice(heads.start // shared, heads.start // shared + 1)
